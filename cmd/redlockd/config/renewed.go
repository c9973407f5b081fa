package config

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// renewed holds the content of PEM files that are replaced while redlockd runs: certificates live for
// weeks, servers for longer.
type renewed[T any] struct {
	files []string
	read  func() (*T, error)
	// lifetime tells from when to when a certificate is valid. nil: for files without an end.
	lifetime func(*T) (from, to time.Time)

	current atomic.Pointer[T]
	fault   atomic.Value // string: why the files that are there now cannot be used; "" or none: they are

	// The goroutine that looks at the files owns all below.
	seen   []os.FileInfo // state of the files at the last successful read; nil: the last read failed, try again
	warned time.Time     // time of the last warning that the certificate ends soon
}

const (
	// lookEvery is the pause between two looks at the files.
	lookEvery = 2 * time.Second
	// warnEvery is the pause between two warnings that a certificate ends soon.
	warnEvery = 24 * time.Hour
)

// newRenewed reads the files for the first time, and has WatchFiles look at them.
func newRenewed[T any](c *Config, read func() (*T, error), lifetime func(*T) (from, to time.Time), files ...string) (*renewed[T], error) {
	r := &renewed[T]{files: files, read: read, lifetime: lifetime, seen: statAll(files), warned: time.Now()} // the caller warns
	v, err := read()
	if err != nil {
		return nil, err
	}
	r.current.Store(v)
	c.looks = append(c.looks, r.look)
	return r, nil
}

// get returns what the last successful read found. It never waits for a file, because a file system
// that hangs (NFS) must not hang handshakes. Any goroutine may call it.
func (r *renewed[T]) get() *T { return r.current.Load() }

// WatchFiles reads replaced certificate files again, until ctx ends. Each set of files has its own
// goroutine. Nobody waits for it, because a read that hangs cannot be ended.
func (c *Config) WatchFiles(ctx context.Context, log *slog.Logger) {
	for _, look := range c.looks {
		go func() {
			tick := time.NewTicker(lookEvery)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case now := <-tick.C:
					look(log, now)
				}
			}
		}()
	}
}

// look reads the files again if they were replaced, and warns of a certificate that ends soon.
func (r *renewed[T]) look(log *slog.Logger, now time.Time) {
	// The state is taken before the read, so that the next look sees what changes in between.
	if seen := statAll(r.files); seen == nil || !slices.EqualFunc(seen, r.seen, sameFile) {
		r.readAgain(log, seen)
	}
	if r.lifetime == nil || now.Sub(r.warned) < warnEvery {
		return
	}
	if warning := r.endsSoon(now); warning != "" {
		r.warned = now
		log.Warn(warning)
	}
}

// readAgain takes the new content if it is complete. Files are replaced one after another, so for a
// moment the certificate and the key may not belong together.
func (r *renewed[T]) readAgain(log *slog.Logger, seen []os.FileInfo) {
	v, err := r.read()
	if err != nil {
		r.seen = nil
		if r.fault.Swap(err.Error()) != any(err.Error()) {
			log.Warn("files of TLS were replaced and cannot be used: what they held before stays in use", "reason", err,
				"to_do", "put a certificate and its key there that belong together: redlockd takes them within seconds")
		}
		return
	}
	r.seen, r.warned = seen, time.Time{}
	r.current.Store(v)
	r.fault.Store("")
	attrs := []any{"files", strings.Join(r.files, " ")}
	if r.lifetime != nil {
		_, to := r.lifetime(v)
		attrs = append(attrs, "not_after", to)
	}
	log.Info("files of TLS were replaced: what they hold now is in use", attrs...)
}

// endsSoon returns a warning if the certificate ends soon, else "". Certificates are usually renewed
// when a third of their time or a month is left. With less than a fifth and less than two weeks left,
// the renewal has failed.
func (r *renewed[T]) endsSoon(now time.Time) string {
	from, to := r.lifetime(r.current.Load())
	left, date := to.Sub(now), to.UTC().Format("2006-01-02 15:04 MST")
	switch {
	case left <= 0:
		return fmt.Sprintf("the certificate %s has ended on %s: clients that check it refuse it; renew it", r.files[0], date)
	case left < min(to.Sub(from)/5, 14*24*time.Hour):
		return fmt.Sprintf("the certificate %s ends on %s, in %s: renew it", r.files[0], date, left.Round(time.Minute))
	}
	return ""
}

// warning says what is wrong with the certificate now; "": nothing. Any goroutine may call it.
func (r *renewed[T]) warning(now time.Time) string {
	fault, _ := r.fault.Load().(string)
	ends := r.endsSoon(now)
	switch {
	case fault == "":
		return ends
	case ends == "":
		ends = "put a certificate and its key there that belong together"
	}
	return fmt.Sprintf("files were replaced and cannot be used, so what they held before stays in use (%s); %s", fault, ends)
}

// statAll is nil if a file is missing. It follows links, because Kubernetes replaces a secret by
// changing a link.
func statAll(files []string) []os.FileInfo {
	var all []os.FileInfo
	for _, path := range files {
		info, err := os.Stat(path)
		if err != nil {
			return nil
		}
		all = append(all, info)
	}
	return all
}

func sameFile(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
