package sandbox

import (
	"sort"

	lua "github.com/yuin/gopher-lua"
)

func (m *machine) tableFunctions() map[string]lua.LGFunction {
	return map[string]lua.LGFunction{
		"concat": m.tableConcat, "foreach": m.tableForeach, "foreachi": m.tableForeachi, "getn": m.tableGetn,
		"insert": m.tableInsert, "maxn": m.tableMaxn, "remove": m.tableRemove, "setn": tableSetn, "sort": m.tableSort,
	}
}

func (m *machine) tableConcat(L *lua.LState) int {
	t := m.content(argTable(L, 1, "concat"))
	sep := ""
	if L.Get(2) != lua.LNil {
		sep = argString(L, 2, "concat")
	}
	i, j := optInt(L, 3, "concat", 1), optInt(L, 4, "concat", t.Len())
	var b []byte
	for k := i; k <= j; k++ {
		m.work(1)
		v := t.RawGet(lua.LNumber(k))
		text, ok := concatText(v)
		if !ok {
			L.RaiseError("invalid value (%s) at index %d in table for 'concat'", v.Type(), k)
		}
		m.chargeString(len(text) + len(sep))
		if b = append(b, text...); k < j {
			b = append(b, sep...)
		}
		if k == j { // which may be the greatest integer
			break
		}
	}
	m.chargeString(len(b))
	L.Push(lua.LString(b))
	return 1
}

func (m *machine) tableForeach(L *lua.LState) int {
	t, f := m.content(argTable(L, 1, "foreach")), argFunction(L, 2, "foreach")
	for k, v := t.Next(lua.LNil); k != lua.LNil; k, v = t.Next(k) {
		if m.visit(L, f, k, v) {
			return 1
		}
	}
	return 0
}

func (m *machine) tableForeachi(L *lua.LState) int {
	t, f := m.content(argTable(L, 1, "foreachi")), argFunction(L, 2, "foreachi")
	for i := range t.Len() {
		if m.visit(L, f, lua.LNumber(i+1), t.RawGetInt(i+1)) {
			return 1
		}
	}
	return 0
}

// visit calls f and reports whether it returned something, which is then on the stack.
func (m *machine) visit(L *lua.LState, f *lua.LFunction, k, v lua.LValue) bool {
	m.work(1)
	L.Push(f)
	L.Push(k)
	L.Push(v)
	L.Call(2, 1)
	if L.Get(-1) != lua.LNil {
		return true
	}
	L.Pop(1)
	return false
}

func (m *machine) tableGetn(L *lua.LState) int {
	L.Push(lua.LNumber(m.content(argTable(L, 1, "getn")).Len()))
	return 1
}

func (m *machine) tableInsert(L *lua.LState) int {
	t := argTable(L, 1, "insert")
	n := t.Len()
	at, v := n+1, L.Get(2)
	switch L.GetTop() {
	case 2:
	case 3:
		at, v = argInt(L, 2, "insert"), L.Get(3)
	default:
		L.RaiseError("wrong number of arguments to 'insert'")
	}
	m.writable(t)
	m.grow(t, lua.LNumber(max(at, n+1)), v)
	for i := n; i >= at; i-- {
		m.work(1)
		t.RawSet(lua.LNumber(i+1), t.RawGet(lua.LNumber(i)))
	}
	t.RawSet(lua.LNumber(at), v)
	return 0
}

func (m *machine) tableMaxn(L *lua.LState) int {
	greatest := 0.0
	m.each(argTable(L, 1, "maxn"), func(k, _ lua.LValue) {
		if n, ok := k.(lua.LNumber); ok && float64(n) > greatest {
			greatest = float64(n)
		}
	})
	L.Push(lua.LNumber(greatest))
	return 1
}

func (m *machine) tableRemove(L *lua.LState) int {
	t := argTable(L, 1, "remove")
	n := t.Len()
	at := optInt(L, 2, "remove", n)
	if at < 1 || at > n { // as of every read-only table, which has no elements
		return 0
	}
	v := t.RawGetInt(at)
	m.work((n - at) / 16)
	for i := at; i < n; i++ {
		t.RawSetInt(i, t.RawGetInt(i+1))
	}
	t.RawSetInt(n, lua.LNil)
	L.Push(v)
	return 1
}

func tableSetn(L *lua.LState) int {
	argTable(L, 1, "setn")
	L.RaiseError("'setn' is obsolete")
	return 0
}

// sorter sorts a copy, so that a comparison that changes the table does no harm.
type sorter struct {
	m    *machine
	less *lua.LFunction
	list []lua.LValue
}

func (s *sorter) Len() int      { return len(s.list) }
func (s *sorter) Swap(i, j int) { s.list[i], s.list[j] = s.list[j], s.list[i] }

func (s *sorter) Less(i, j int) bool {
	a, b := s.list[i], s.list[j]
	s.m.work(1)
	L := s.m.lua
	if s.less != nil {
		L.Push(s.less)
		L.Push(a)
		L.Push(b)
		L.Call(2, 1)
		r := lua.LVAsBool(L.Get(-1))
		L.Pop(1)
		return r
	}
	if x, ok := a.(lua.LNumber); ok {
		if y, ok := b.(lua.LNumber); ok {
			return x < y
		}
	}
	if x, ok := a.(lua.LString); ok {
		if y, ok := b.(lua.LString); ok {
			return x < y
		}
	}
	if a.Type() != b.Type() {
		s.m.fail("attempt to compare %s with %s", a.Type(), b.Type())
	}
	return L.LessThan(a, b)
}

func (m *machine) tableSort(L *lua.LState) int {
	t := argTable(L, 1, "sort")
	s := &sorter{m: m}
	if L.Get(2) != lua.LNil {
		s.less = argFunction(L, 2, "sort")
	}
	m.writable(t)
	n := t.Len()
	m.charge(n * slot)
	s.list = make([]lua.LValue, n)
	for i := range s.list {
		s.list[i] = t.RawGetInt(i + 1)
	}
	sort.Sort(s)
	for i, v := range s.list {
		t.RawSetInt(i+1, v)
	}
	return 0
}
