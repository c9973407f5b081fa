package arguments_test

import (
	"fmt"
	"strings"

	"redlockd/redlock/arguments"
)

func ExampleReadSet() {
	args := strings.Fields("SET invoices token px 30000 nx")
	o, refusal := arguments.ReadSet(args[3:])
	if refusal != "" {
		fmt.Println(refusal)
		return
	}
	fmt.Println(o.Word, o.Time.Ms, o.Met(true, "another token"))

	_, refusal = arguments.ReadSet([]string{"NX", "XX"})
	fmt.Println(refusal)
	// Output:
	// nx 30000 false
	// ERR syntax error
}
