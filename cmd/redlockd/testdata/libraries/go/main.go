// Command locks drives one lock library of Go by lines on its standard input, see ../README.md.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// A locker is one lock of one library. The answers are the words of the protocol.
type locker interface {
	// acquire takes the lock; without wait, it asks once.
	acquire(name string, ttl time.Duration, wait bool) (string, error)
	extend(ttl time.Duration) (string, error)
	inspect() (string, error)
	release() (string, error)
	ping() error
}

// waitMax bounds how long acquire waits for a lock that is held.
const waitMax = 10 * time.Second

var ctx = context.Background()

var libraries = map[string]struct {
	open    func(addr string) (locker, error)
	modules []string
}{
	"redsync":     {openRedsync, []string{"github.com/go-redsync/redsync/v4", "github.com/redis/go-redis/v9"}},
	"redislock":   {openRedislock, []string{"github.com/bsm/redislock", "github.com/redis/go-redis/v9"}},
	"rueidislock": {openRueidislock, []string{"github.com/redis/rueidis"}},
	"go-redis":    {openGoRedis, []string{"github.com/redis/go-redis/v9"}},
	"redigo":      {openRedigo, []string{"github.com/gomodule/redigo"}},
}

func main() {
	library, ok := libraries[os.Args[3]]
	if !ok {
		fmt.Println("error no such library:", os.Args[3])
		os.Exit(2)
	}
	l, err := library.open(os.Args[1] + ":" + os.Args[2])
	if err != nil {
		fmt.Println("error", oneLine(err))
		os.Exit(1)
	}
	fmt.Println("ready", versions(library.modules))
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		answer, err := step(l, strings.Fields(lines.Text()))
		if err != nil {
			answer = "error " + oneLine(err)
		}
		fmt.Println(answer)
	}
}

func step(l locker, words []string) (string, error) {
	switch words[0] {
	case "acquire", "try":
		return l.acquire(words[1], milliseconds(words[2]), words[0] == "acquire")
	case "extend":
		return l.extend(milliseconds(words[1]))
	case "inspect":
		return l.inspect()
	case "release":
		return l.release()
	case "ping":
		return "ok", l.ping()
	}
	return "", fmt.Errorf("no such command: %q", words)
}

func milliseconds(word string) time.Duration {
	n, err := strconv.Atoi(word)
	if err != nil {
		panic(err)
	}
	return time.Duration(n) * time.Millisecond
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

func versions(modules []string) string {
	info, _ := debug.ReadBuildInfo()
	var all []string
	for _, path := range modules {
		for _, dep := range info.Deps {
			if dep.Path == path {
				name := strings.TrimSuffix(strings.TrimSuffix(path, "/v4"), "/v9")
				all = append(all, name[strings.LastIndex(name, "/")+1:]+" "+strings.TrimPrefix(dep.Version, "v"))
			}
		}
	}
	return strings.Join(all, ", ")
}

// granted and held turn a yes or no into the word of the protocol.
func granted(yes bool) string {
	if yes {
		return "ok"
	}
	return "refused"
}

func held(yes bool) string {
	if yes {
		return "held"
	}
	return "lost"
}
