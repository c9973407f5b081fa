package sandbox

import "sort"

var tableFunctions = map[string]func(c *call) int{
	"concat": tableConcat,
	"getn":   func(c *call) int { return c.result(float64(c.argTable().length())) },
	"insert": tableInsert, "maxn": tableMaxn, "remove": tableRemove, "sort": tableSort,
}

func tableConcat(c *call) int {
	t := c.argTable()
	sep := ""
	if c.get(2) != nil {
		sep = c.argString(2)
	}
	i, j := c.optInt(3, 1), c.optInt(4, t.length())
	b := builder{m: c.m}
	for k := i; k <= j; k++ {
		c.m.step(1)
		if v := t.at(k); !b.value(v) {
			c.raise("invalid value (%s) at index %d in table for 'concat'", typeName(v), k)
		}
		if k < j {
			b.text(sep)
		}
		if k == j { // which may be the greatest integer
			break
		}
	}
	return c.result(b.string())
}

func tableInsert(c *call) int {
	m := c.m
	t := c.argTable()
	n := t.length()
	at, v := n+1, c.get(2)
	switch c.top() {
	case 2:
	case 3:
		at, v = c.argInt(2), c.get(3)
	default:
		c.raise("wrong number of arguments to 'insert'")
	}
	m.writable(t)
	for i := n; i >= at; i-- {
		m.step(1)
		t.set(m, float64(i+1), t.at(i))
	}
	t.set(m, float64(at), v)
	return 0
}

func tableMaxn(c *call) int {
	greatest := 0.0
	c.m.each(c.argTable(), func(k, _ value) {
		if n, ok := k.(float64); ok && n > greatest {
			greatest = n
		}
	})
	return c.result(greatest)
}

func tableRemove(c *call) int {
	t := c.argTable()
	n := t.length()
	at := c.optInt(2, n)
	if at < 1 || at > n { // as of every read-only table, which has no elements
		return 0
	}
	v := t.at(at)
	c.m.step(n - at)
	for i := at; i < n; i++ {
		t.set(c.m, float64(i), t.at(i+1))
	}
	t.set(c.m, float64(n), nil)
	return c.result(v)
}

func tableSort(c *call) int {
	m, t := c.m, c.argTable()
	less, ok := c.get(2).(*function)
	if !ok && c.get(2) != nil {
		c.badType(2, "function")
	}
	m.writable(t)
	n := t.length()
	m.charge(n * slotBytes)
	list := make([]value, n) // a copy, so that a comparison that changes the table does no harm
	for i := range list {
		list[i] = t.at(i + 1)
	}
	isLess := func(i, j int) bool {
		m.step(1)
		if less == nil {
			return m.compare(list[i], list[j], false, 0)
		}
		c.push(list[i])
		c.push(list[j])
		return truthy(c.invoke(less, 2))
	}
	sort.Slice(list, isLess)
	for i, v := range list {
		t.set(m, float64(i+1), v)
	}
	return 0
}
