package main

// The register that the locks guard, and the check of its history with porcupine. Each resource has one, in a Redis that has no faults. A
// holder shows its fence whenever it reads or writes, and the register refuses a lower one than it has seen. So the read and the
// write of a holder, with others' accesses between them as the case may be, must look like one step.

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// The scripts of the register, a hash with the value v and the highest fence f. A fence of 0 is a reader's, which has none.
const (
	readRegister = `local f, known = tonumber(ARGV[1]), tonumber(redis.call('HGET', KEYS[1], 'f') or '0')
if f > 0 and f < known then return {'refused', ''} end
if f > known then redis.call('HSET', KEYS[1], 'f', ARGV[1]) end
return {'ok', redis.call('HGET', KEYS[1], 'v') or ''}`
	writeRegister = `local f, known = tonumber(ARGV[1]), tonumber(redis.call('HGET', KEYS[1], 'f') or '0')
if f < known then return {'refused', ''} end
redis.call('HSET', KEYS[1], 'f', ARGV[1], 'v', ARGV[2])
return {'ok', ARGV[2]}`
)

type registerState struct {
	value string
	fence int64
}

// registerModel is a register whose every access is one step.
func registerModel(initial registerState) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return initial },
		Step: func(state, input, _ any) (bool, any) {
			now, a := state.(registerState), input.(access)
			if a.read != now.value || a.fence != 0 && a.fence < now.fence {
				return false, now
			}
			if a.wrote {
				now.value = a.value
			}
			now.fence = max(now.fence, a.fence)
			return true, now
		},
	}
}

const (
	registerWindow  = 400 // accesses that porcupine gets at once, or more until there is a moment without any under way
	registerTimeout = 20 * time.Second
)

// registerChecked is how far the check of the registers came.
type registerChecked struct{ accesses, windows, undecided int }

// checkRegisters asks porcupine whether the accesses to each register could have been one after another.
func checkRegisters(accesses []access) (done registerChecked, found []violation) {
	byResource := map[string][]access{}
	for _, a := range accesses {
		byResource[a.resource] = append(byResource[a.resource], a)
	}
	for _, resource := range sortedKeys(byResource) {
		all := settle(byResource[resource])
		done.accesses += len(all)
		state := registerState{}
		for _, window := range windows(all, registerWindow) {
			done.windows++
			ops := make([]porcupine.Operation, len(window))
			for i, a := range window {
				ops[i] = porcupine.Operation{ClientId: a.lease, Input: a, Call: a.call, Return: a.done}
			}
			switch porcupine.CheckOperationsTimeout(registerModel(state), ops, registerTimeout) {
			case porcupine.Illegal:
				found = append(found, violation{window[0].call, resource, fmt.Sprintf("the register is not linearizable in a window of %d accesses, from value %q and fence %d on%s",
					len(window), state.value, state.fence, suspects(window, state))})
			case porcupine.Unknown:
				done.undecided++
			}
			state = after(window, state)
		}
	}
	return done, found
}

// settle decides of each write whose end nobody knows whether it took place: a value is written once, so if it did, the next access read
// it, and the write was done by then. If nobody read it, it makes no difference.
func settle(accesses []access) []access {
	seen := map[string]int64{} // when a value was first known to be there
	for _, a := range accesses {
		if t, ok := seen[a.read]; !ok || a.done < t {
			seen[a.read] = a.done
		}
	}
	settled := slices.Clone(accesses)
	for i, a := range settled {
		if a.wrote && a.unknown {
			t, ok := seen[a.value]
			settled[i].wrote = ok
			if ok {
				settled[i].done = max(t, a.call)
			}
		}
	}
	slices.SortFunc(settled, func(a, b access) int { return cmp.Compare(a.call, b.call) })
	return settled
}

// windows cuts accesses, in the order of their calls, where none is under way.
func windows(all []access, least int) (cut [][]access) {
	begin, until := 0, int64(0)
	for i, a := range all {
		if i-begin >= least && a.call > until {
			cut = append(cut, all[begin:i])
			begin = i
		}
		until = max(until, a.done)
	}
	if begin < len(all) {
		cut = append(cut, all[begin:])
	}
	return cut
}

// after is the state that a window leaves: the value that nobody in it replaced, and the highest fence.
func after(window []access, state registerState) registerState {
	replaced := map[string]bool{}
	for _, a := range window {
		state.fence = max(state.fence, a.fence)
		if a.wrote {
			replaced[a.read] = true
		}
	}
	for _, a := range window {
		if a.wrote && !replaced[a.value] {
			state.value = a.value
		}
	}
	return state
}

// suspects names values that two have replaced, which is what two holders at once would do.
func suspects(window []access, state registerState) (text string) {
	by := map[string]access{}
	for _, a := range window {
		if !a.wrote {
			continue
		}
		if first, ok := by[a.read]; ok {
			text += fmt.Sprintf("; %q was replaced twice: by %s with fence %d, and by %s with fence %d", a.read, first.who, first.fence, a.who, a.fence)
		}
		by[a.read] = a
	}
	return text
}
