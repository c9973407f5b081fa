package memmaster

import (
	"maps"
	"slices"
)

// zset is the value of ZADD. Only its lower end is kept in order (ZPOPMIN).
type zset struct {
	members map[string]*member
	lowest  minHeap[*member]
}

type member struct {
	name      string
	score     float64
	heapPlace int
}

func (m *member) before(other *member) bool {
	return m.score < other.score || m.score == other.score && m.name < other.name
}

func (m *member) place() *int { return &m.heapPlace }

func newZset() *zset { return &zset{members: map[string]*member{}} }

func (z *zset) add(name []byte, score float64) {
	m := &member{name: string(name), score: score}
	z.members[m.name] = m
	z.lowest.push(m)
}

func (z *zset) setScore(m *member, score float64) {
	m.score = score
	z.lowest.fix(m)
}

func (z *zset) remove(m *member) {
	z.lowest.remove(m)
	delete(z.members, m.name)
}

func (z *zset) clone() *zset {
	if z == nil {
		return nil
	}
	c := newZset()
	for _, m := range z.members {
		c.add([]byte(m.name), m.score)
	}
	return c
}

// highest returns the members from rank first to rank last, counted from the highest; negative ranks count from the lowest.
func (z *zset) highest(first, last int64) []*member {
	n := int64(len(z.members))
	if first < 0 {
		first = max(0, first+n)
	}
	if last < 0 {
		last += n
	}
	last = min(last, n-1)
	if first > last {
		return nil
	}
	if first == 0 && last == 0 {
		var top *member
		for _, m := range z.members {
			if top == nil || top.before(m) {
				top = m
			}
		}
		return []*member{top}
	}
	all := slices.SortedFunc(maps.Values(z.members), func(a, b *member) int {
		if a.before(b) {
			return 1
		}
		return -1
	})
	return all[first : last+1]
}
