package sandbox

import (
	"sort"
)

var tableFunctions = map[string]func(c *call) int{
	"concat": tableConcat,
	"getn":   func(c *call) int { c.push(float64(argTable(c, 1, "getn").length())); return 1 },
	"insert": tableInsert, "maxn": tableMaxn, "remove": tableRemove, "sort": tableSort,
}

func tableConcat(c *call) int {
	m := c.m
	t := argTable(c, 1, "concat")
	sep := ""
	if c.get(2) != nil {
		sep = argString(c, 2, "concat")
	}
	i, j := optInt(c, 3, "concat", 1), optInt(c, 4, "concat", t.length())
	var b []byte
	for k := i; k <= j; k++ {
		m.step(1)
		v := t.at(k)
		text, ok := concatText(v)
		if !ok {
			c.raise("invalid value (%s) at index %d in table for 'concat'", typeName(v), k)
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
	c.push(string(b))
	return 1
}

func tableInsert(c *call) int {
	m := c.m
	t := argTable(c, 1, "insert")
	n := t.length()
	at, v := n+1, c.get(2)
	switch c.top() {
	case 2:
	case 3:
		at, v = argInt(c, 2, "insert"), c.get(3)
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
	c.m.each(argTable(c, 1, "maxn"), func(k, _ value) {
		if n, ok := k.(float64); ok && n > greatest {
			greatest = n
		}
	})
	c.push(greatest)
	return 1
}

func tableRemove(c *call) int {
	m := c.m
	t := argTable(c, 1, "remove")
	n := t.length()
	at := optInt(c, 2, "remove", n)
	if at < 1 || at > n { // as of every read-only table, which has no elements
		return 0
	}
	v := t.at(at)
	m.step(n - at)
	for i := at; i < n; i++ {
		t.set(m, float64(i), t.at(i+1))
	}
	t.set(m, float64(n), nil)
	c.push(v)
	return 1
}

func tableSort(c *call) int {
	m, t := c.m, argTable(c, 1, "sort")
	var less *function
	if c.get(2) != nil {
		less = argFunction(c, 2, "sort")
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
