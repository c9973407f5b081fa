package sandbox

// What the compiler (compile.go) makes of a function, and what of it works while a script runs.

type (
	// expr computes one value, and leaves the stack as it was.
	expr func(f *frame) value
	// values puts all values of a call, or of "...", on the stack.
	values func(f *frame)
	// stmt is a statement. The stack is as long behind it as before, but for results behind a return.
	stmt func(f *frame) control
)

// control is how a statement ends.
type control int

const (
	goesOn   control = iota
	breaks           // out of the innermost loop
	returns          // the results are on the stack
	tailCall         // so are the arguments of machine.tail
)

func run(f *frame, list []stmt) control {
	for _, s := range list {
		if c := s(f); c != goesOn {
			return c
		}
	}
	return goesOn
}

// proto is a function as it is compiled. Nothing in it changes once compileChunk has returned.
type proto struct {
	body     []stmt
	slots    int
	levels   int // of its expressions and blocks: how deep closures call each other in it
	params   []*variable
	vararg   bool
	arg      *variable // "arg" of Lua 5.0, which C Lua declares beside "..."
	argTable bool      // it is the table of all arguments, as "..." is not used, and else nil
	captures []capture
}

// capture says where a closure finds a variable when it is made: in a slot of the function around it,
// or among the cells of that.
type capture struct {
	slot bool
	at   int
}

// variable is a local variable.
type variable struct {
	name string
	slot int
	// captured: a closure uses it, so that its slot has a cell. That is found out behind code that is
	// compiled already, so the code asks when it is executed.
	captured bool
}

// declare begins the variable. In each turn of a loop it is another one for the closures that are made
// there.
func (v *variable) declare(f *frame, x value) {
	if v.captured {
		f.m.charge(cellBytes)
		x = &cell{x}
	}
	f.slots[v.slot] = x
}

func (v *variable) get(f *frame) value {
	x := f.slots[v.slot]
	if v.captured {
		return x.(*cell).v
	}
	return x
}

func (v *variable) set(f *frame, x value) {
	if v.captured {
		f.slots[v.slot].(*cell).v = x
		return
	}
	f.slots[v.slot] = x
}

// begin gives the parameters their arguments.
func (p *proto) begin(f *frame, args []value) {
	for i, v := range p.params {
		var x value
		if i < len(args) {
			x = args[i]
		}
		v.declare(f, x)
	}
	f.varargs = nil
	if !p.vararg {
		return
	}
	if n := len(args) - len(p.params); n > 0 {
		f.m.charge(n * slotBytes)
		f.varargs = append(make([]value, 0, n), args[len(p.params):]...)
	}
	switch {
	case p.argTable:
		t := f.m.table(0, 1)
		t.array = f.varargs
		t.set(f.m, "n", float64(len(f.varargs)))
		p.arg.declare(f, t)
	case p.arg != nil:
		p.arg.declare(f, nil)
	}
}
