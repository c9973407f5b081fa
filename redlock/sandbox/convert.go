package sandbox

import (
	lua "github.com/yuin/gopher-lua"
)

// replyDepthMax bounds the nesting of a table that a script returns.
const replyDepthMax = 1000

// value is how Lua sees the reply of a command. After redis.setresp(3) a null is nil and not false.
func (m *machine) value(r Reply) lua.LValue {
	switch r.Kind {
	case Status:
		return m.fieldTable("ok", r.Text)
	case Error:
		return m.fieldTable("err", r.Text)
	case Int:
		return lua.LNumber(r.Int)
	case Bulk:
		return lua.LString(r.Text)
	case Array:
		t := m.table(len(r.Elems), 0)
		for i, e := range r.Elems {
			t.RawSetInt(i+1, m.value(e)) // not Append, which drops a nil
		}
		return t
	case Bool:
		if m.resp == 3 {
			return lua.LBool(r.Int != 0)
		}
		return lua.LNumber(r.Int)
	case Double:
		return m.holder("double", lua.LNumber(r.Float))
	case Map:
		t := m.table(0, len(r.Elems)/2)
		for i := 0; i+1 < len(r.Elems); i += 2 {
			t.RawSet(m.value(r.Elems[i]), m.value(r.Elems[i+1]))
		}
		return m.holder("map", t)
	case Set:
		t := m.table(0, len(r.Elems))
		for _, e := range r.Elems {
			t.RawSet(m.value(e), lua.LTrue)
		}
		return m.holder("set", t)
	case BigNumber:
		return m.holder("big_number", lua.LString(r.Text))
	case Verbatim:
		t := m.table(0, 2)
		t.RawSetString("format", lua.LString(r.Text[:3]))
		t.RawSetString("string", lua.LString(r.Text[4:]))
		return m.holder("verbatim_string", t)
	}
	if m.resp == 3 {
		return lua.LNil
	}
	return lua.LFalse
}

func (m *machine) fieldTable(name, text string) *lua.LTable {
	return m.holder(name, lua.LString(text))
}

func (m *machine) holder(name string, v lua.LValue) *lua.LTable {
	m.charge(holderBytes)
	t := m.lua.CreateTable(0, 1)
	t.RawSetString(name, v)
	return t
}

// reply is what a script's result becomes: a number loses its fraction, an array ends at its first nil.
func (m *machine) reply(v lua.LValue, depth int) Reply {
	if depth > replyDepthMax {
		return Reply{Kind: Error, Text: "ERR reached lua stack limit"}
	}
	switch v := v.(type) {
	case lua.LString:
		return Reply{Kind: Bulk, Text: string(v)}
	case lua.LNumber:
		return Reply{Kind: Int, Int: truncate(float64(v))}
	case lua.LBool:
		switch {
		case bool(v) && m.resp == 3:
			return Reply{Kind: Bool, Int: 1}
		case bool(v):
			return Reply{Kind: Int, Int: 1}
		case m.resp == 3:
			return Reply{Kind: Bool}
		}
	case *lua.LTable:
		return m.tableReply(v, depth)
	}
	return Reply{}
}

func (m *machine) tableReply(t *lua.LTable, depth int) Reply {
	if content, ok := m.frozen[t]; ok {
		t = content
	}
	if text, ok := t.RawGetString("err").(lua.LString); ok {
		return Reply{Kind: Error, Text: string(text)}
	}
	if text, ok := t.RawGetString("ok").(lua.LString); ok {
		return Reply{Kind: Status, Text: string(text)}
	}
	if f, ok := t.RawGetString("double").(lua.LNumber); ok {
		return Reply{Kind: Double, Float: float64(f)}
	}
	if pairs, ok := t.RawGetString("map").(*lua.LTable); ok {
		r := Reply{Kind: Map}
		m.each(pairs, func(k, v lua.LValue) {
			r.Elems = append(r.Elems, m.charged(k, depth), m.charged(v, depth))
		})
		return r
	}
	if elems, ok := t.RawGetString("set").(*lua.LTable); ok {
		r := Reply{Kind: Set}
		m.each(elems, func(k, _ lua.LValue) { r.Elems = append(r.Elems, m.charged(k, depth)) })
		return r
	}
	if text, ok := t.RawGetString("big_number").(lua.LString); ok {
		return Reply{Kind: BigNumber, Text: oneLine(string(text))}
	}
	if v, ok := t.RawGetString("verbatim_string").(*lua.LTable); ok {
		format, isFormat := v.RawGetString("format").(lua.LString)
		text, isText := v.RawGetString("string").(lua.LString)
		if isFormat && isText {
			return Reply{Kind: Verbatim, Text: string(format + "   ")[:3] + ":" + string(text)}
		}
	}
	r := Reply{Kind: Array}
	for i := 1; ; i++ {
		v := t.RawGetInt(i)
		if v == lua.LNil {
			return r
		}
		r.Elems = append(r.Elems, m.charged(v, depth))
	}
}

// charged converts one element and counts it: tables can contain one another, so that a few of them make a reply that
// is as large as two to the power of their number.
func (m *machine) charged(v lua.LValue, depth int) Reply {
	m.work(4)
	m.charge(replyBytes)
	if s, ok := v.(lua.LString); ok {
		m.charge(len(s)) // it is written once for each time that it is in the reply
	}
	return m.reply(v, depth+1)
}

// replyBytes is what one element of a reply takes.
const replyBytes = 96
