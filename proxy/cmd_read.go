package proxy

// readCommand is the handler of a command that answers what a quorum of masters holds, in the words of Redis.
func readCommand(run keyCommand) func(*session, *call) {
	return func(s *session, c *call) { s.dropIn(c, c.effect(run), "") }
}
