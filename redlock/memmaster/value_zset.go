package memmaster

import "slices"

// zset is the value of ZADD. Only its lower end is kept in order (ZPOPMIN, ZREMRANGEBYSCORE).
type zset struct {
	members map[string]*member
	// lowest holds all members too, the one that ZPOPMIN takes first.
	lowest minHeap[*member]
}

type member struct {
	name  string
	score float64
	// heapIndex is its index in zset.lowest.
	heapIndex int
}

// before orders by score, and members of one score by name, as Redis does.
func (m *member) before(other *member) bool {
	return m.score < other.score || m.score == other.score && m.name < other.name
}

func (m *member) heapIndexOf() *int { return &m.heapIndex }

func newZset() *zset { return &zset{members: map[string]*member{}} }

// add takes a member that is new.
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

// highest returns the n members with the highest scores, the highest first, or all if there are fewer.
// The set keeps only its lower end in order, so this looks at all of them.
func (z *zset) highest(n int) []*member {
	top := make([]*member, 0, n+1)
	for _, m := range z.members {
		if len(top) == n && m.before(top[n-1]) {
			continue
		}
		i := len(top)
		for i > 0 && top[i-1].before(m) {
			i--
		}
		if top = slices.Insert(top, i, m); len(top) > n {
			top = top[:n]
		}
	}
	return top
}
