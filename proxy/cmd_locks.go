package proxy

import (
	"fmt"
	"slices"

	"github.com/tidwall/redcon"

	"redlockd/redlock"
)

// What is known of the locks: by the masters (LOCKINFO), and by this server (LOCKS). No token is ever shown, only its digest.
var inspectCommands = []command{
	{
		name: "lockinfo", arity: 2, flags: flagReadOnly | flagNoScript, keys: oneKey, handler: cmdLOCKINFO,
		docs: commandDocs{group: "generic", since: "1.0.0", complexity: roundComplexity,
			summary:   "Tell what the masters know of a resource, and how many wait for it here",
			arguments: syntax("resource:key")},
	},
	{
		name: "locks", arity: -1, flags: flagReadOnly | flagNoScript, handler: cmdLOCKS,
		docs: commandDocs{group: "generic", since: "1.0.0", complexity: "O(N) where N is the number of leases granted through this server",
			summary:   "List the leases that were granted through this server and still run, and resources with waiters",
			arguments: syntax("[PATTERN glob:pattern] [COUNT n:integer]")},
	},
}

// locksDefault and locksMax bound what LOCKS lists.
const (
	locksDefault = 100
	locksMax     = 10_000
)

// infoCall is a LOCKINFO on its way.
type infoCall struct {
	slot
	op redlock.Op
}

// cmdLOCKINFO is LOCKINFO resource.
func cmdLOCKINFO(s *session, c *call) {
	i := new(infoCall)
	c.takePlace(&i.slot)
	s.server.opts.Engine.StartInspect(&i.op, string(c.args[1]), i)
}

// Done implements redlock.Completer.
func (i *infoCall) Done(_ *redlock.Op, result redlock.Result) redlock.Flusher {
	if result.Err != nil {
		return i.failWith(result.Err)
	}
	info := result.Info
	i.out = appendMap(i.out, i.proto, 7)
	i.out = redcon.AppendBulkString(i.out, "resource")
	i.out = redcon.AppendBulkString(i.out, info.Resource)
	i.out = redcon.AppendBulkString(i.out, "held")
	if info.Unknown {
		i.out = appendNull(i.out, i.proto)
	} else {
		i.out = redcon.AppendInt(i.out, oneIf(info.Held))
	}
	i.out = redcon.AppendBulkString(i.out, "validity-ms")
	i.out = redcon.AppendInt(i.out, floorMs(info.Validity))
	i.out = redcon.AppendBulkString(i.out, "token-digest")
	i.out = appendTextOrNull(i.out, i.proto, info.TokenDigest)
	i.out = redcon.AppendBulkString(i.out, "votes")
	i.out = redcon.AppendArray(i.out, len(info.Votes))
	for _, vote := range info.Votes {
		i.out = appendVote(i.out, i.proto, vote, i.terse)
	}
	i.out = redcon.AppendBulkString(i.out, "waiters")
	i.out = redcon.AppendInt(i.out, int64(info.Waiters))
	i.out = redcon.AppendBulkString(i.out, "fence")
	if info.Fence > 0 {
		i.out = redcon.AppendInt(i.out, info.Fence)
	} else {
		i.out = appendNull(i.out, i.proto)
	}
	return i.complete()
}

// appendVote appends what one master says: a digest if it has a key, its TTL (-1: none), and why it says nothing. Terse: without the
// name of the master, and with its state in place of the reason.
func appendVote(out []byte, proto int, vote redlock.ResourceVote, terse bool) []byte {
	out = appendMap(out, proto, 4)
	out = redcon.AppendBulkString(out, "master")
	if terse {
		out = appendNull(out, proto)
	} else {
		out = redcon.AppendBulkString(out, vote.Addr)
	}
	out = redcon.AppendBulkString(out, "token-digest")
	out = appendTextOrNull(out, proto, vote.TokenDigest)
	out = redcon.AppendBulkString(out, "ttl-ms")
	switch {
	case vote.TokenDigest == "":
		out = appendNull(out, proto)
	case vote.TTL < 0:
		out = redcon.AppendInt(out, -1)
	default:
		out = redcon.AppendInt(out, floorMs(vote.TTL))
	}
	out = redcon.AppendBulkString(out, "error")
	switch {
	case vote.Err == nil:
		return appendNull(out, proto)
	case !terse:
		return redcon.AppendBulkString(out, vote.Err.Error())
	case vote.State == redlock.MasterUp:
		return redcon.AppendBulkString(out, "late or failing")
	}
	return redcon.AppendBulkString(out, string(vote.State))
}

// cmdLOCKS is LOCKS [PATTERN glob] [COUNT n].
func cmdLOCKS(s *session, c *call) {
	pattern, limit, refusal := parseLocks(c.args[1:])
	if refusal != "" {
		c.fail(refusal)
		return
	}
	match := func(resources []string) bool {
		return (pattern == "" || slices.ContainsFunc(resources, func(resource string) bool { return globMatch(pattern, resource) })) &&
			!slices.ContainsFunc(resources, func(resource string) bool { return !s.user.may(resource) })
	}
	leases := s.server.opts.Engine.Leases(match, limit)
	c.out = redcon.AppendArray(c.out, len(leases))
	for _, lease := range leases {
		c.out = appendMap(c.out, c.proto, 5)
		c.out = redcon.AppendBulkString(c.out, "resources")
		c.out = redcon.AppendArray(c.out, len(lease.Resources))
		for _, resource := range lease.Resources {
			c.out = redcon.AppendBulkString(c.out, resource)
		}
		c.out = redcon.AppendBulkString(c.out, "token-digest")
		c.out = appendTextOrNull(c.out, c.proto, lease.TokenDigest)
		c.out = redcon.AppendBulkString(c.out, "validity-ms")
		c.out = redcon.AppendInt(c.out, floorMs(lease.Validity))
		c.out = redcon.AppendBulkString(c.out, "lost")
		c.out = redcon.AppendInt(c.out, oneIf(lease.Lost))
		c.out = redcon.AppendBulkString(c.out, "waiters")
		c.out = redcon.AppendInt(c.out, int64(lease.Waiters))
	}
}

func parseLocks(args [][]byte) (pattern string, limit int, refusal string) {
	for ; len(args) > 0; args = args[2:] {
		option := args[0]
		isPattern := equalFold(option, "PATTERN")
		switch {
		case !isPattern && !equalFold(option, "COUNT"):
			return "", 0, "ERR syntax error: '" + clipped(option, 128) + "' is no option of LOCKS; PATTERN glob and COUNT n are"
		case isPattern && pattern != "" || !isPattern && limit != 0:
			return "", 0, optionTwice(option)
		case len(args) == 1:
			return "", 0, optionBare(option)
		case isPattern && len(args[1]) == 0:
			return "", 0, "ERR the pattern is empty: leave it out to list all"
		case isPattern:
			pattern = string(args[1])
		default:
			n, ok := parseInteger(args[1])
			if !ok || n < 1 || n > locksMax {
				return "", 0, fmt.Sprintf("ERR COUNT '%s' is not an integer from 1 to %d", clipped(args[1], 32), locksMax)
			}
			limit = int(n)
		}
	}
	if limit == 0 {
		limit = locksDefault
	}
	return pattern, limit, ""
}

func appendTextOrNull(out []byte, proto int, text string) []byte {
	if text == "" {
		return appendNull(out, proto)
	}
	return redcon.AppendBulkString(out, text)
}
