package resp

import "io"

const (
	// bufferStart is the size of a buffer that holds something.
	bufferStart = 4 << 10
	// bufferKeep is how large an empty buffer may stay: enough for the replies to a thousand busy callers.
	bufferKeep = 256 << 10
	// roomMin is the least room for one read.
	roomMin = 512
)

// Buffer holds what has arrived on a connection and is not read yet. One goroutine uses it. The zero
// value is ready, and empty.
//
// It has no bound of its own: the caller that fills it must refuse what is too long to be waited for,
// as FrameScanner.Scan and CutReply do.
type Buffer struct {
	b     []byte
	start int // b[:start] was taken
}

// Unread returns the bytes that were not taken. They are valid until the next Room.
func (b *Buffer) Unread() []byte { return b.b[b.start:] }

// Take removes n bytes from the front and returns them. They are valid until the next Room.
func (b *Buffer) Take(n int) []byte {
	taken := b.b[b.start : b.start+n : b.start+n]
	b.start += n
	return taken
}

// Room returns memory behind the unread bytes to read into; Added then says how much came. A buffer
// that the last read has filled grows, up to bufferKeep or as far as the unread bytes need it.
func (b *Buffer) Room() []byte {
	// A read that filled its room was probably not all: the next one may take more at once.
	filled := len(b.b) == cap(b.b)
	unread := copy(b.b, b.b[b.start:])
	b.b, b.start = b.b[:unread], 0
	// One long reply must not leave its memory with the connection for good.
	if unread == 0 && cap(b.b) > bufferKeep {
		b.b = nil
	}
	if filled && cap(b.b) < bufferKeep || cap(b.b)-unread < roomMin {
		grown := make([]byte, unread, max(bufferStart, 2*cap(b.b)))
		copy(grown, b.b)
		b.b = grown
	}
	return b.b[unread:cap(b.b)]
}

// Fill reads what conn has into Room. It waits for at least one byte.
func (b *Buffer) Fill(conn io.Reader) error {
	n, err := conn.Read(b.Room())
	b.Added(n)
	switch {
	case n > 0:
		return nil // an error comes again with the next read
	case err == nil:
		return io.ErrNoProgress
	}
	return err
}

// Added makes the first n bytes of the last Room unread ones.
func (b *Buffer) Added(n int) { b.b = b.b[:len(b.b)+n] }
