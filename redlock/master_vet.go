package redlock

import (
	"fmt"
	"strconv"
	"strings"
)

// oldestVersion is the first Redis that has everything we use: CLIENT ID and CLIENT KILL by ID over RESP 2,
// UNLINK, and scripts that replicate effects.
var oldestVersion = [2]int{5, 0}

// refusal says why a master that describes itself like this (fields of INFO) cannot have a vote, or "" when it
// can. Fields that are missing are not judged.
func refusal(info map[string]string) string {
	switch {
	case isRedlockd(info):
		return "it is a redlockd, not a Redis: name the masters behind it"
	case info["role"] != "" && info["role"] != "master": //mutant:a-replica-votes
		return fmt.Sprintf("it is a %s of %s:%s, not a master: a failover would forget locks", info["role"], info["master_host"], info["master_port"])
	case info["cluster_enabled"] == "1":
		return "it is a node of a Redis Cluster: locks need independent masters"
	case info["redis_mode"] == "sentinel":
		return "it is a Sentinel, not a master"
	case evicts(info) != "":
		return evicts(info)
	}
	if version := info["redis_version"]; version != "" && tooOld(version) {
		return fmt.Sprintf("Redis %s is too old: at least %d.%d is needed", version, oldestVersion[0], oldestVersion[1])
	}
	return ""
}

// isRedlockd tells whether the address is that of a proxy, which would count its own masters' votes as one.
func isRedlockd(info map[string]string) bool { return info["redlockd_version"] != "" }

// evicts says why a master may throw locks away, or "" when it does not. It is one of the reasons of refusal.
func evicts(info map[string]string) string {
	if info["maxmemory"] != "" && info["maxmemory"] != "0" && info["maxmemory_policy"] != "noeviction" && info["maxmemory_policy"] != "" { //mutant:eviction-not-seen
		return fmt.Sprintf("it may evict locks when its memory is full: maxmemory-policy is %s, set noeviction", info["maxmemory_policy"])
	}
	return ""
}

// tooOld tells whether a version is below oldestVersion. A version that cannot be read is not judged.
func tooOld(version string) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && (major < oldestVersion[0] || major == oldestVersion[0] && minor < oldestVersion[1])
}

// infoFieldsMax bounds the fields of INFO that are read: a Redis has some hundreds.
const infoFieldsMax = 4096

// parseInfo reads the reply of INFO: lines "field:value" between section headings. A field that
// comes twice keeps its last value; a line without a colon says nothing. Values go into logs and
// replies, so they are fit for that.
func parseInfo(text string) map[string]string {
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
			info[field] = shown(value)
		}
	}
	return info
}
