package sandbox

// replyDepthMax bounds the nesting of a table that a script returns.
const replyDepthMax = 1000

// value is how Lua sees the reply of a command. After redis.setresp(3) a null is nil and not false.
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
			t.array = append(t.array, m.value(e)) // nil too
		}
		return t
	case Bool:
		if m.resp == 3 {
			return r.Int != 0
		}
		return float64(r.Int)
	case Double:
		return m.holder("double", r.Float)
	case Map:
		t := m.table(0, len(r.Elems)/2)
		for i := 0; i+1 < len(r.Elems); i += 2 {
			t.set(m, m.value(r.Elems[i]), m.value(r.Elems[i+1]))
		}
		return m.holder("map", t)
	case Set:
		t := m.table(0, len(r.Elems))
		for _, e := range r.Elems {
			t.set(m, m.value(e), true)
		}
		return m.holder("set", t)
	case BigNumber:
		return m.holder("big_number", r.Text)
	case Verbatim:
		t := m.table(0, 2)
		t.set(m, "format", r.Text[:3])
		t.set(m, "string", r.Text[4:])
		return m.holder("verbatim_string", t)
	}
	if m.resp == 3 {
		return nil
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
		switch {
		case v && m.resp == 3:
			return Reply{Kind: Bool, Int: 1}
		case v:
			return Reply{Kind: Int, Int: 1}
		case m.resp == 3:
			return Reply{Kind: Bool}
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
	if f, ok := t.getString("double").(float64); ok {
		return Reply{Kind: Double, Float: f}
	}
	if pairs, ok := t.getString("map").(*table); ok {
		r := Reply{Kind: Map}
		m.each(pairs, func(k, v value) {
			r.Elems = append(r.Elems, m.charged(k, depth), m.charged(v, depth))
		})
		return r
	}
	if elems, ok := t.getString("set").(*table); ok {
		r := Reply{Kind: Set}
		m.each(elems, func(k, _ value) { r.Elems = append(r.Elems, m.charged(k, depth)) })
		return r
	}
	if text, ok := t.getString("big_number").(string); ok {
		return Reply{Kind: BigNumber, Text: oneLine(text)}
	}
	if v, ok := t.getString("verbatim_string").(*table); ok {
		format, isFormat := v.getString("format").(string)
		text, isText := v.getString("string").(string)
		if isFormat && isText {
			return Reply{Kind: Verbatim, Text: (format + "   ")[:3] + ":" + text}
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
