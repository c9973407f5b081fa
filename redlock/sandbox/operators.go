package sandbox

import (
	"math"

	lua "github.com/yuin/gopher-lua"
)

// operators are the functions that rewrite.go puts into scripts.
func (m *machine) operators() map[string]lua.LGFunction {
	fs := map[string]lua.LGFunction{
		nameConcat: m.opConcat, nameSet: m.opSet, nameKey: m.opKey, nameTable: m.opTable, nameClosure: m.opClosure, nameVararg: m.opVararg,
		nameNumber: opNumber, nameMinus: m.opMinus, nameLength: m.opLength,
	}
	for operator, event := range map[string]string{"+": "__add", "-": "__sub", "*": "__mul", "/": "__div", "%": "__mod", "^": "__pow"} {
		fs[nameOf(operator)] = m.arithmetic(operator[0], event, 1, 2)
		fs[nameSwapped(operator)] = m.arithmetic(operator[0], event, 2, 1)
	}
	return fs
}

// arithmetic is an operator of two numbers, or of strings that are numbers; else of a metatable. Its operands are these arguments.
func (m *machine) arithmetic(operator byte, event string, left, right int) lua.LGFunction {
	return func(L *lua.LState) int {
		a, b := L.Get(left), L.Get(right)
		x, isNumber := a.(lua.LNumber)
		y, areNumbers := b.(lua.LNumber)
		if !isNumber || !areNumbers {
			f, okX := toNumber(L, a)
			g, okY := toNumber(L, b)
			if !okX || !okY {
				return m.arithmeticOdd(L, a, b, event)
			}
			x, y = lua.LNumber(f), lua.LNumber(g)
		}
		L.Push(calculate(operator, x, y))
		return 1
	}
}

func calculate(operator byte, x, y lua.LNumber) lua.LNumber {
	switch operator {
	case '+':
		return x + y
	case '-':
		return x - y
	case '*':
		return x * y
	case '/':
		return x / y
	case '^':
		return lua.LNumber(asC(math.Pow(float64(x), float64(y)), float64(x), float64(y)))
	}
	return x - lua.LNumber(math.Floor(float64(x/y)))*y // as Lua 5.1 defines %
}

// arithmeticOdd is arithmetic of what is not two numbers.
func (m *machine) arithmeticOdd(L *lua.LState, a, b lua.LValue, event string) int {
	f := L.GetMetaField(a, event)
	if f == lua.LNil {
		f = L.GetMetaField(b, event)
	}
	if f == lua.LNil {
		odd := b
		if _, ok := toNumber(L, a); !ok {
			odd = a
		}
		L.RaiseError("attempt to perform arithmetic on a %s value", odd.Type())
	}
	L.Push(f)
	L.Push(a)
	L.Push(b)
	L.Call(2, 1)
	return 1
}

func (m *machine) opMinus(L *lua.LState) int {
	v := L.Get(1)
	if f, ok := toNumber(L, v); ok {
		L.Push(lua.LNumber(-f))
		return 1
	}
	return m.arithmeticOdd(L, v, v, "__unm")
}

// opLength is #, which asks no metatable of a table.
func (m *machine) opLength(L *lua.LState) int {
	switch v := L.Get(1).(type) {
	case lua.LString:
		L.Push(lua.LNumber(len(v)))
	case *lua.LTable:
		L.Push(lua.LNumber(v.Len()))
	default:
		L.RaiseError("attempt to get length of a %s value", v.Type())
	}
	return 1
}

func (m *machine) opConcat(L *lua.LState) int {
	n := L.GetTop()
	var room [256]byte
	b := room[:0]
	total := 0
	for i := 1; i <= n; i++ {
		switch v := L.Get(i).(type) {
		case lua.LString:
			total += len(v)
		case lua.LNumber:
			total += 24
		default:
			return m.concatOdd(L, n)
		}
	}
	m.chargeString(total)
	if total > len(room) {
		b = make([]byte, 0, total)
	}
	for i := 1; i <= n; i++ {
		switch v := L.Get(i).(type) {
		case lua.LString:
			b = append(b, v...)
		case lua.LNumber:
			b = appendNumber(b, float64(v), 14)
		}
	}
	L.Push(lua.LString(b))
	return 1
}

// concatOdd joins from the right, as some operand is neither a string nor a number.
func (m *machine) concatOdd(L *lua.LState, n int) int {
	right := L.Get(n)
	for i := n - 1; i >= 1; i-- {
		left := L.Get(i)
		a, okA := concatText(left)
		b, okB := concatText(right)
		if okA && okB {
			m.chargeString(len(a) + len(b))
			right = lua.LString(a + b)
			continue
		}
		join := L.GetMetaField(left, "__concat")
		if join == lua.LNil {
			join = L.GetMetaField(right, "__concat")
		}
		if join == lua.LNil {
			odd := left
			if okA {
				odd = right
			}
			L.RaiseError("attempt to concatenate a %s value", odd.Type())
		}
		L.Push(join)
		L.Push(left)
		L.Push(right)
		L.Call(2, 1)
		right = L.Get(-1)
		L.Pop(1)
	}
	L.Push(right)
	return 1
}

func concatText(v lua.LValue) (text string, ok bool) {
	switch v := v.(type) {
	case lua.LString:
		return string(v), true
	case lua.LNumber:
		return numberString(float64(v)), true
	}
	return "", false
}

// opSet is t[k] = v, as Lua does it: the table that gets the element pays for it.
func (m *machine) opSet(L *lua.LState) int {
	object, key, v := L.Get(1), L.Get(2), L.Get(3)
	for range lua.MaxTableGetLoop {
		t, isTable := object.(*lua.LTable)
		if isTable && t.RawGet(key) != lua.LNil {
			t.RawSet(key, v)
			return 0
		}
		next := L.GetMetaField(object, "__newindex")
		switch {
		case next == lua.LNil && !isTable:
			L.RaiseError("attempt to index a %s value", object.Type())
		case next == lua.LNil:
			m.checkKey(L, key)
			m.grow(t, key, v)
			t.RawSet(key, v)
			return 0
		}
		if f, ok := next.(*lua.LFunction); ok {
			L.Push(f)
			L.Push(object)
			L.Push(key)
			L.Push(v)
			L.Call(3, 0)
			return 0
		}
		object = next
		m.work(1)
	}
	L.RaiseError("loop in settable")
	return 0
}

func (m *machine) checkKey(L *lua.LState, key lua.LValue) {
	switch k := key.(type) {
	case lua.LNumber:
		if k != k {
			L.RaiseError("table index is NaN")
		}
	case *lua.LNilType:
		L.RaiseError("table index is nil")
	}
}

// opKey is a key of a constructor, whose table is not at hand: it counts as if the table were empty.
func (m *machine) opKey(L *lua.LState) int {
	m.checkKey(L, L.Get(1))
	if n := arrayIndex(L.Get(1)); n > tableFreeMax {
		m.charge(n * elementBytes)
		m.work(n / 16)
	}
	L.SetTop(1)
	return 1
}

// opTable counts the bytes of a constructor, which rewrite.go knows.
func (m *machine) opTable(L *lua.LState) int {
	m.charge(int(lua.LVAsNumber(L.Get(2))))
	L.SetTop(1)
	return 1
}

func (m *machine) opClosure(L *lua.LState) int {
	m.charge(closureBytes + len(L.Get(1).(*lua.LFunction).Upvalues)*upvalueBytes)
	return 1
}

func (m *machine) opVararg(L *lua.LState) int {
	n := L.GetTop()
	m.many(n)
	return n
}

// opNumber is a bound of a loop.
func opNumber(L *lua.LState) int {
	L.SetTop(1)
	if _, isString := L.Get(1).(lua.LString); isString {
		if f, ok := toNumber(L, L.Get(1)); ok {
			L.Push(lua.LNumber(f))
		}
	}
	return 1
}
