package keyspace_test

import (
	"fmt"
	"time"

	"redlockd/proxy/keyspace"
	"redlockd/redlock"
)

// A release that compares first: what it does where the token holds the key, and where another one does.
func Example() {
	command, refusal := keyspace.Parse("delex", []string{"invoices", "IFEQ", "token"})
	if refusal != "" {
		fmt.Println(refusal)
		return
	}
	for _, holder := range []string{"token", "another"} {
		states := []redlock.State{{Found: true, Type: "string", Value: holder, TTL: 5 * time.Second}}
		space := keyspace.New(command.Keys(), states, time.Now())
		reply, err := space.Do(command)
		if err != nil {
			fmt.Println(err)
			return
		}
		outcome := space.Outcome()
		fmt.Println(reply.Int, outcome.Writes)
		for _, change := range outcome.Changes {
			fmt.Println(change.Resource, "must hold", change.Value, "and is deleted:", change.Do == redlock.Delete)
		}
	}
	// Output:
	// 1 true
	// invoices must hold token and is deleted: true
	// 0 false
	// invoices must hold another and is deleted: false
}

func ExampleReadSet() {
	o, refusal := keyspace.ReadSet([]string{"px", "30000", "nx"})
	fmt.Println(o.Word, o.Time.Ms, refusal == "")
	_, refusal = keyspace.ReadSet([]string{"NX", "XX"})
	fmt.Println(refusal)
	// Output:
	// nx 30000 true
	// ERR syntax error
}
