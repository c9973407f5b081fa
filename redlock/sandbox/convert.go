package sandbox

import "redlockd/redlock/resp"

// replyDepthMax bounds the nesting of a table that a script returns.
const replyDepthMax = 1000

// value is how Lua sees the reply of a command, which is in RESP2.
func (m *machine) value(r resp.Value) value {
	switch r.Kind {
	case resp.Status:
		return m.holder("ok", r.Text)
	case resp.Error:
		return m.holder("err", r.Text)
	case resp.Int:
		return float64(r.Int)
	case resp.Bulk, resp.Double:
		return r.Text
	case resp.Array, resp.Map, resp.Set, resp.Pairs:
		t := m.table(len(r.Elems), 0)
		for _, e := range r.Elems {
			t.array = append(t.array, m.value(e))
		}
		return t
	}
	return false
}

// holder is a table with one field.
func (m *machine) holder(name string, v value) *table {
	t := m.table(0, 1)
	t.set(m, name, v)
	return t
}

// reply is what a script's result becomes: a number loses its fraction, an array ends at its first nil.
func (m *machine) reply(v value, depth int) resp.Value {
	if depth > replyDepthMax {
		return resp.Value{Kind: resp.Error, Text: "ERR reached lua stack limit"}
	}
	switch v := v.(type) {
	case string:
		return resp.Value{Kind: resp.Bulk, Text: v}
	case float64:
		return resp.Value{Kind: resp.Int, Int: truncate(v)}
	case bool:
		if v {
			return resp.Value{Kind: resp.Int, Int: 1}
		}
	case *table:
		return m.tableReply(v, depth)
	}
	return resp.Value{}
}

func (m *machine) tableReply(t *table, depth int) resp.Value {
	if text, ok := t.getString("err").(string); ok {
		return resp.Value{Kind: resp.Error, Text: text}
	}
	if text, ok := t.getString("ok").(string); ok {
		return resp.Value{Kind: resp.Status, Text: text}
	}
	for _, name := range []string{"double", "map", "set", "big_number", "verbatim_string"} {
		if t.getString(name) != nil {
			m.end(&unavailableError{"the type " + name + " of RESP3"})
		}
	}
	r := resp.Value{Kind: resp.Array}
	n := 0
	for t.at(n+1) != nil {
		n++
	}
	if n == 0 {
		return r
	}
	// Tables can contain one another, so that a few of them make a reply that is as large as two to the
	// power of their number.
	m.step(4 * n)
	m.charge(n * replyBytes)
	r.Elems = make([]resp.Value, n)
	for i := range r.Elems {
		v := t.at(i + 1)
		if s, ok := v.(string); ok {
			m.charge(len(s)) // it is written once for each time that it is in the reply
		}
		r.Elems[i] = m.reply(v, depth+1)
	}
	return r
}
