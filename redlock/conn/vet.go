package conn

import (
	"fmt"
	"strconv"
	"strings"
)

// OldestVersion is the first Redis that has everything we use: CLIENT ID and CLIENT KILL by ID over RESP 2,
// UNLINK, and scripts that replicate effects.
var OldestVersion = [2]int{5, 0}

// Refusal says why a master that describes itself like this (fields of INFO) cannot have a vote, or "" when it
// can. Fields that are missing are not judged.
func Refusal(info map[string]string) string {
	switch {
	case IsRedlockd(info):
		return "it is a redlockd, not a Redis: name the masters behind it"
	case info["role"] != "" && info["role"] != "master": //mutant:a-replica-votes
		return fmt.Sprintf("it is a %s of %s:%s, not a master: a failover would forget locks", info["role"], info["master_host"], info["master_port"])
	case info["cluster_enabled"] == "1":
		return "it is a node of a Redis Cluster: locks need independent masters"
	case info["redis_mode"] == "sentinel":
		return "it is a Sentinel, not a master"
	case Evicts(info) != "":
		return Evicts(info)
	}
	if version := info["redis_version"]; version != "" && TooOld(version) {
		return fmt.Sprintf("Redis %s is too old: at least %d.%d is needed", version, OldestVersion[0], OldestVersion[1])
	}
	return ""
}

// IsRedlockd tells whether the address is that of a proxy, which would count its own masters' votes as one.
func IsRedlockd(info map[string]string) bool { return info["redlockd_version"] != "" }

// Evicts says why a master may throw locks away, or "" when it does not. It is one of the reasons of refusal.
func Evicts(info map[string]string) string {
	if info["maxmemory"] != "" && info["maxmemory"] != "0" && info["maxmemory_policy"] != "noeviction" && info["maxmemory_policy"] != "" { //mutant:eviction-not-seen
		return fmt.Sprintf("it may evict locks when its memory is full: maxmemory-policy is %s, set noeviction", info["maxmemory_policy"])
	}
	return ""
}

// TooOld tells whether a version is below oldestVersion. A version that cannot be read is not judged.
func TooOld(version string) bool {
	parts := strings.SplitN(version, ".", 3)
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
