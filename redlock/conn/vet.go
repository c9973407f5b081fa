package conn

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/lua"
)

// Identity is what a master says of itself on a new connection.
type Identity struct {
	RunID, Version string
	clientID       int64 // of the lane's connection
}

// Identify asks the master who it is, and refuses those that cannot have a vote. info has the fields of
// INFO, also where the master is refused; more are sections that only the caller needs.
func (l *Conn) Identify(ctx context.Context, more ...string) (id Identity, info map[string]string, err error) {
	// The handshake (HELLO, AUTH, SELECT) runs with the first command.
	pipe := l.Redis.Pipeline()
	var sections []*redis.StringCmd
	for _, name := range append([]string{"server", "replication", "memory", "cluster"}, more...) {
		sections = append(sections, pipe.Info(ctx, name))
	}
	if _, err := pipe.Exec(ctx); err != nil { // where the login is refused, the commands do not say so
		return id, nil, l.greetingFailed(ctx, err)
	}
	text := ""
	for _, section := range sections {
		text += section.Val()
	}
	info = ParseInfo(text)
	id = Identity{RunID: info["run_id"], Version: ServerVersion(info)}
	switch reason := Refusal(info); {
	case reason != "":
		return id, info, &RefusedError{reason}
	case id.RunID == "":
		return id, info, &RefusedError{"its INFO has no run_id: see whether it is a Redis"}
	}
	return id, info, nil
}

// greetingFailed says why. A master that has closed the connection without a word is asked whether it
// speaks TLS.
func (l *Conn) greetingFailed(ctx context.Context, err error) error {
	switch broken := !Replied(err) && !IsRefused(err); {
	case broken && ctx.Err() != nil:
		err = ctx.Err() // it broke because we closed it
	case broken && !IsTimeout(err) && l.checked.first == nil && l.master.TLS == nil && l.master.speaksTLS(ctx):
		return &RefusedError{tlsThere}
	}
	return l.master.explainGreeting(l.checked.first, err)
}

// Vet learns who the master is, and readies the connection for a lane: commands that an earlier
// connection of ours left unread at the same master are discarded, and the scripts are loaded.
func (l *Conn) Vet(ctx context.Context, before Identity) (Identity, error) {
	id, _, err := l.Identify(ctx)
	if err != nil {
		return id, Explain(err)
	}
	// What the master has not read of our old connection must not be executed behind new commands. After a
	// restart the old id may belong to somebody else.
	if before.clientID != 0 && before.RunID == id.RunID { //mutant:the-old-connection-is-not-killed
		if err := l.Redis.Process(ctx, redis.NewIntCmd(ctx, "client", "kill", "id", before.clientID)); err != nil {
			return id, Explain(err)
		}
	}
	if id.clientID, err = l.probeNative(ctx); err != nil {
		return id, Explain(err)
	}
	return id, Explain(l.Load(ctx))
}

// NoKey is a key that no master has: what is tried on it changes nothing.
const NoKey = lua.ReservedPrefix + "none"

// probeNative finds out which command the master offers, by sending both for a key that does not exist.
// A command that an ACL refuses counts as missing. It also returns the id that the connection has at
// the master.
func (l *Conn) probeNative(ctx context.Context) (clientID int64, err error) {
	pipe := l.Redis.Pipeline()
	first, second := pipe.Do(ctx, "delex", NoKey, "ifeq", ""), pipe.Do(ctx, "delifeq", NoKey, "")
	id := pipe.ClientID(ctx)
	pipe.Exec(ctx)
	switch {
	case first.Err() == nil:
		l.CompareAndDelete = Delex
	case second.Err() == nil:
		l.CompareAndDelete = Delifeq
	}
	return id.Result()
}

// OldestVersion is the first Redis that has everything we use: CLIENT ID and CLIENT KILL by ID over
// RESP 2, UNLINK, and scripts that replicate effects.
var OldestVersion = [2]int{5, 0}

// Refusal says why a master that describes itself like this (fields of INFO) cannot have a vote, or ""
// when it can. Fields that are missing are not judged.
func Refusal(info map[string]string) string {
	switch {
	case IsRedlockd(info):
		return "it is a redlockd, not a Redis: name the masters behind it"
	case info["role"] != "" && info["role"] != "master": //mutant:a-replica-votes
		return fmt.Sprintf("it is a %s of %s:%s, not a master: a failover would forget locks", info["role"], info["master_host"], info["master_port"])
	case info["cluster_enabled"] == "1":
		return "it is a node of a Redis Cluster: locks need independent masters"
	case IsSentinel(info):
		return "it is a Sentinel, not a master"
	case Evicts(info) != "":
		return Evicts(info)
	}
	if version := ServerVersion(info); TooOld(version) {
		return fmt.Sprintf("%s is too old: at least %d.%d is needed", version, OldestVersion[0], OldestVersion[1])
	}
	return ""
}

// IsRedlockd tells whether the address is that of a proxy, which would count its own masters' votes as
// one.
func IsRedlockd(info map[string]string) bool { return info["redlockd_version"] != "" }

// IsSentinel tells whether the address is that of a Sentinel: of Redis, Valkey or Redict.
func IsSentinel(info map[string]string) bool {
	return cmp.Or(info["server_mode"], info["redict_mode"], info["redis_mode"]) == "sentinel"
}

// ServerVersion is what a master calls itself: "Redis 7.0.15", "Valkey 8.1.1"; "": it does not say. The
// redis_version of the others tells which Redis they are like.
func ServerVersion(info map[string]string) string {
	for _, name := range []string{"Valkey", "Redict", "Dragonfly", "Redis"} {
		if version := info[strings.ToLower(name)+"_version"]; version != "" {
			return name + " " + Printable(version, 32)
		}
	}
	return ""
}

// Evicts says why a master may throw locks away, or "" when it does not. It is one of the reasons of
// refusal.
func Evicts(info map[string]string) string {
	if info["maxmemory"] != "" && info["maxmemory"] != "0" && info["maxmemory_policy"] != "noeviction" && info["maxmemory_policy"] != "" { //mutant:eviction-not-seen
		return fmt.Sprintf("it may evict locks when its memory is full: maxmemory-policy is %s, set noeviction", info["maxmemory_policy"])
	}
	return ""
}

// TooOld tells whether a ServerVersion is below OldestVersion. One that is not of Redis, or cannot be
// read, is not judged.
func TooOld(version string) bool {
	parts := strings.SplitN(strings.TrimPrefix(version, "Redis "), ".", 3)
	if len(parts) < 2 {
		return false
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && (major < OldestVersion[0] || major == OldestVersion[0] && minor < OldestVersion[1])
}

// infoFieldsMax bounds the fields of INFO that are read: a Redis has some hundreds.
const infoFieldsMax = 4096

// ParseInfo reads the reply of INFO: lines "field:value" between section headings. A field that
// comes twice keeps its last value; a line without a colon says nothing. Values go into logs and
// replies, so they are fit for that.
func ParseInfo(text string) map[string]string {
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if len(info) == infoFieldsMax {
			break
		}
		line = strings.TrimRight(line, "\r\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		if field, value, ok := strings.Cut(line, ":"); ok {
			info[field] = Sanitize(value)
		}
	}
	return info
}
