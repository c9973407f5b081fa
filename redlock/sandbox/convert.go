package sandbox

// replyDepthMax bounds the nesting of a table that a script returns.
const replyDepthMax = 1000

// value is how Lua sees the reply of a command.
func (m *machine) value(r Reply) value {
	switch r.Kind {
	case Status:
		return m.holder("ok", r.Text)
	case Error:
		return m.holder("err", r.Text)
	case Int:
		return float64(r.Int)
	case Bulk:
		return r.Text
	case Array:
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
func (m *machine) reply(v value, depth int) Reply {
	if depth > replyDepthMax {
		return Reply{Kind: Error, Text: "ERR reached lua stack limit"}
	}
	switch v := v.(type) {
	case string:
		return Reply{Kind: Bulk, Text: v}
	case float64:
		return Reply{Kind: Int, Int: truncate(v)}
	case bool:
		if v {
			return Reply{Kind: Int, Int: 1}
		}
	case *table:
		return m.tableReply(v, depth)
	}
	return Reply{}
}

func (m *machine) tableReply(t *table, depth int) Reply {
	if text, ok := t.getString("err").(string); ok {
		return Reply{Kind: Error, Text: text}
	}
	if text, ok := t.getString("ok").(string); ok {
		return Reply{Kind: Status, Text: text}
	}
	for _, name := range []string{"double", "map", "set", "big_number", "verbatim_string"} {
		if t.getString(name) != nil {
			m.end(&UnavailableError{"the type " + name + " of RESP3"})
		}
	}
	r := Reply{Kind: Array}
	for i := 1; ; i++ {
		v := t.at(i)
		if v == nil {
			return r
		}
		r.Elems = append(r.Elems, m.charged(v, depth))
	}
}

// charged converts one element and counts it: tables can contain one another, so that a few of them make a reply that
// is as large as two to the power of their number.
func (m *machine) charged(v value, depth int) Reply {
	m.step(4)
	m.charge(replyBytes)
	if s, ok := v.(string); ok {
		m.charge(len(s)) // it is written once for each time that it is in the reply
	}
	return m.reply(v, depth+1)
}
