package sandbox

import "math"

// The operators of Lua, on numbers and on everything else: strings that are numbers, and values with
// metatables. Each gets the line where it stands, for its error and for the call of a metamethod.

// calculate is an operator of two numbers.
func calculate(operator byte, x, y float64) float64 {
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
		return asC(math.Pow(x, y), x, y)
	}
	return x - math.Floor(x/y)*y // as Lua 5.1 defines %
}

var arithmeticEvents = map[byte]string{'+': "__add", '-': "__sub", '*': "__mul", '/': "__div", '%': "__mod", '^': "__pow", '_': "__unm"}

// arithmeticOdd is arithmetic of strings that are numbers, or of a metatable.
func (m *machine) arithmeticOdd(operator byte, a, b value, line int) value {
	x, okX := toNumber(m, a)
	y, okY := toNumber(m, b)
	if okX && okY {
		return calculate(operator, x, y)
	}
	h := metaField(a, arithmeticEvents[operator])
	if h == nil {
		h = metaField(b, arithmeticEvents[operator])
	}
	if h == nil {
		odd := b
		if !okX {
			odd = a
		}
		m.raise(line, "attempt to perform arithmetic on a %s value", typeName(odd))
	}
	return m.callFor(line, h, a, b)
}

// sameHandler is the function that both values have for a comparison.
func sameHandler(a, b value, event string) value {
	if h := metaField(a, event); h != nil && h == metaField(b, event) {
		return h
	}
	return nil
}

// equalOdd is == of tables that are not the same.
func (m *machine) equalOdd(a, b value, line int) bool {
	_, isTable := a.(*table)
	_, areTables := b.(*table)
	if !isTable || !areTables {
		return false
	}
	h := sameHandler(a, b, "__eq")
	return h != nil && truthy(m.callFor(line, h, a, b))
}

// compare is a < b, or a <= b, which without __le is not b < a, as Lua 5.1 defines it.
func (m *machine) compare(a, b value, orEqual bool, line int) bool {
	switch x := a.(type) {
	case float64:
		if y, ok := b.(float64); ok {
			return x < y || orEqual && x == y
		}
	case string:
		if y, ok := b.(string); ok {
			if n := min(len(x), len(y)); n >= 64 {
				m.step(n / 64)
			}
			return x < y || orEqual && x == y
		}
	}
	x, y := typeName(a), typeName(b)
	if x != y {
		m.raise(line, "attempt to compare %s with %s", x, y)
	}
	if orEqual {
		if h := sameHandler(a, b, "__le"); h != nil {
			return truthy(m.callFor(line, h, a, b))
		}
		a, b = b, a
	}
	h := sameHandler(a, b, "__lt")
	if h == nil {
		m.raise(line, "attempt to compare two %s values", x)
	}
	return truthy(m.callFor(line, h, a, b)) != orEqual
}

// concat joins values. Where some are neither strings nor numbers it goes from right to left, as their
// metatables can tell.
func (m *machine) concat(list []value, line int) value {
	total := 0
	for _, v := range list {
		switch v := v.(type) {
		case string:
			total += len(v)
		case float64:
			total += 24
		default:
			return m.concatOdd(list, line)
		}
	}
	var room [256]byte
	if total <= len(room) {
		b := room[:0]
		for _, v := range list {
			switch v := v.(type) {
			case string:
				b = append(b, v...)
			case float64:
				b = appendNumber(b, v, 14)
			}
		}
		return m.newString(b)
	}
	b := builder{m: m}
	b.grow(total)
	for _, v := range list {
		b.value(v)
	}
	return b.string()
}

// concatOdd joins two at a time, from the right.
func (m *machine) concatOdd(list []value, line int) value {
	right := list[len(list)-1]
	for i := len(list) - 2; i >= 0; i-- {
		left := list[i]
		b := builder{m: m}
		okLeft := b.value(left)
		if okLeft && b.value(right) {
			right = b.string()
			continue
		}
		join := metaField(left, "__concat")
		if join == nil {
			join = metaField(right, "__concat")
		}
		if join == nil {
			odd := left
			if okLeft {
				odd = right
			}
			m.raise(line, "attempt to concatenate a %s value", typeName(odd))
		}
		right = m.callFor(line, join, left, right)
	}
	return right
}

// concatText is the text of a string or a number, which Lua takes for each other.
func (m *machine) concatText(v value) (text string, ok bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case float64:
		return m.numberString(v, 14), true
	}
	return "", false
}

// metaDepthMax bounds a chain of metatables, as in C Lua.
const metaDepthMax = 100

// index is o[key]. Where a table has no value for the key, the __index of its metatable is a function
// to call, or the next table to ask.
func (m *machine) index(o, key value, line int) value {
	for range metaDepthMax {
		t, isTable := o.(*table)
		if isTable {
			if v := t.get(key); v != nil || t.meta == nil {
				return v
			}
		}
		switch h := metaField(o, "__index").(type) {
		case nil:
			if isTable {
				return nil
			}
			m.raise(line, "attempt to index a %s value", typeName(o))
		case *function:
			return m.callFor(line, h, o, key)
		default:
			o = h
		}
		m.step(1)
	}
	m.raise(line, "loop in gettable")
	return nil
}

// setIndex is o[key] = v. __newindex is asked only for a key that has no value.
func (m *machine) setIndex(o, key, v value, line int) {
	for range metaDepthMax {
		t, isTable := o.(*table)
		var h value
		if isTable && t.meta == nil || isTable && t.get(key) != nil {
			h = nil
		} else if h = metaField(o, "__newindex"); h == nil && !isTable {
			m.raise(line, "attempt to index a %s value", typeName(o))
		}
		switch h := h.(type) {
		case nil:
			if t.readonly {
				m.raise(line, errReadonly)
			}
			m.checkKey(key, line)
			t.set(m, key, v)
			return
		case *function:
			m.callFor(line, h, o, key, v)
			return
		default:
			o = h
		}
		m.step(1)
	}
	m.raise(line, "loop in settable")
}

// checkKey raises the error for what cannot be the key of an assignment.
func (m *machine) checkKey(key value, line int) {
	switch k := key.(type) {
	case float64:
		if k != k {
			m.raise(line, "table index is NaN")
		}
	case nil:
		m.raise(line, "table index is nil")
	}
}

// metaField is a field of the metatable of a value.
func metaField(v value, event string) value {
	switch v := v.(type) {
	case *table:
		if v.meta != nil {
			return v.meta.getString(event)
		}
	case string:
		return stringMeta.getString(event)
	}
	return nil
}
