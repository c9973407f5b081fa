package resp

import "bytes"

// ReplyCheck follows the replies in a stream of bytes that another program reads, and finds the first
// that no Redis would have sent. It keeps none of them but the beginning of a line that is not
// complete. The zero value is ready.
type ReplyCheck struct {
	// bytes have come since the last request.
	bytes int
	// elements are the replies, and the elements of arrays in them, since the last request. An array is
	// counted with what it announces, before any of it has come.
	elements int

	// line is the beginning of a line that is not complete: at most one read more than LineMax.
	line []byte
	// left is how many bytes of a string are still to come, with its line end.
	left int
	// open[:depth] is how many elements are still to come of each array that has begun, the outermost
	// first.
	open  [DepthMax]int
	depth int
}

// Request says that a request is sent, which has an answer of its own: what answers it is counted anew.
func (c *ReplyCheck) Request() { c.bytes, c.elements = 0, 0 }

// Check goes over the bytes that follow those of before. After an error none of p may be passed on.
func (c *ReplyCheck) Check(p []byte) error {
	if c.bytes += len(p); c.bytes > RepliesMax {
		return replyErrorf("more than %d bytes in answer to one request", RepliesMax)
	}
	var reply Reply
	for len(p) > 0 {
		// Inside of a string nothing is looked at but its end.
		if c.left > 0 {
			n := min(c.left, len(p))
			if !c.fitsString(p[:n]) {
				return ReplyError("a string that is longer than it says")
			}
			if c.left, p = c.left-n, p[n:]; c.left == 0 {
				c.replyEnded()
			}
			continue
		}
		// Outside of strings there are lines.
		end := bytes.IndexByte(p, '\n') + 1
		if end == 0 {
			c.line = append(c.line, p...)
			_, err := parseLine(c.line, &reply)
			return err
		}
		line := p[:end]
		if len(c.line) > 0 {
			line = append(c.line, line...)
		}
		if _, err := parseLine(line, &reply); err != nil {
			return err
		}
		if err := c.count(&reply); err != nil {
			return err
		}
		c.line, p = c.line[:0], p[end:]
	}
	return nil
}

// fitsString reports whether those of the bytes that are the line end of a string are one. The string
// has c.left bytes from p on.
func (c *ReplyCheck) fitsString(p []byte) bool {
	cr, lf := c.left-2, c.left-1
	return (cr < 0 || cr >= len(p) || p[cr] == '\r') && (lf >= len(p) || p[lf] == '\n')
}

// count counts a reply whose first line is complete.
func (c *ReplyCheck) count(reply *Reply) error {
	if c.depth == 0 { // the others are counted with their array
		c.elements++
	}
	switch {
	case reply.Kind == '$' && reply.N > RepliesMax:
		return replyErrorf("a string of more than %d bytes", RepliesMax)
	case reply.Kind == '$' && !reply.Null:
		c.left = int(reply.N) + 2
	case reply.Kind == '*' && reply.N > 0:
		if c.depth == DepthMax {
			return replyErrorf("arrays in more than %d arrays", DepthMax)
		}
		c.elements += int(reply.N)
		c.open[c.depth] = int(reply.N)
		c.depth++
	default:
		c.replyEnded()
	}
	if c.elements > ElementsMax {
		return replyErrorf("more than %d elements in answer to one request", ElementsMax)
	}
	return nil
}

// replyEnded is for a reply that is complete, which may complete the arrays that it is the last element
// of.
func (c *ReplyCheck) replyEnded() {
	for ; c.depth > 0; c.depth-- {
		last := &c.open[c.depth-1]
		if *last--; *last > 0 {
			return
		}
	}
}
