package status

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/a-h/templ"

	"redlockd/proxy/access"
)

// The page for a person who asks "do I get locks here, and if not, why not", and, after a login, "who
// holds what". GET / answers with the whole page. Its script then follows GET /live, server-sent events
// with the parts of the page that have changed. view.go has what the parts show, page.templ how. It is not
// a template of html/template, because these call methods by names that are known at run time alone: in a
// program that executes one, the linker must keep every exported method.
//
// The page costs nothing while nobody looks, and little otherwise: all streams and requests of one user
// share one rendering, which is a second old at most, or as old as ten times what it cost to make, and
// one list of locks. Only the part of it that each filter leaves is rendered for each stream.

const (
	// streamInterval is the time between two events of a stream.
	streamInterval = time.Second
	// locksInterval is the least time between two lists of locks for one user. Each asks all redlockds,
	// and what they answer goes over every master.
	locksInterval = 2 * time.Second
	// streamWriteTimeout ends a stream whose client does not take an event.
	streamWriteTimeout = 5 * time.Second
	// renderingsMax bounds the renderings that are kept: one for each user who has looked lately.
	renderingsMax = 64
)

// StreamsMax bounds the pages that are followed at one time. One more ends the oldest of the address
// that has most.
const StreamsMax = 64

// pages is what the streams and requests share.
type pages struct {
	mu         sync.Mutex // guards what follows
	renderings map[Viewer]*rendering
	streams    []*stream // in the order in which they began
}

// rendering is the page as one user sees it. viewer nil: as somebody who has not logged in.
type rendering struct {
	mu    sync.Mutex // held while it is made; guards what follows
	until time.Time  // it is used again until then
	used  time.Time
	page  renderedPage
	// locksUntil is until when page.locks is used again.
	locksUntil time.Time
}

// renderedPage does not change once it is made.
type renderedPage struct {
	Title string
	Host  string // of this server
	Tone  tone
	// Parts are those of the page but the list of locks, by the ids of their elements.
	Parts map[string]markup
	// locks is nil for somebody who has not logged in.
	locks *locksView
}

// markup is HTML that page.templ has made. What clients and masters have chosen is escaped in it.
type markup string

// Part returns the part of this id as it was rendered.
func (p *renderedPage) Part(id string) templ.Component { return templ.Raw(p.Parts[id]) }

// pageData is what wholePage shows.
type pageData struct {
	renderedPage
	Nonce   string
	User    string // who is logged in; "": nobody
	Refusal string // why nobody can log in; "": somebody can
	Filter  string
}

// filterOf is what the user looks for in the list of locks.
func filterOf(r *http.Request) string {
	filter := r.URL.Query().Get("filter")
	return strings.ToValidUTF8(filter[:min(len(filter), pageTextMax)], "")
}

// rendered returns the page as the user sees it.
func (st *Status) rendered(viewer Viewer) renderedPage {
	all := &st.pages
	all.mu.Lock()
	r := all.renderings[viewer]
	if r == nil {
		if all.renderings == nil {
			all.renderings = make(map[Viewer]*rendering)
		}
		if len(all.renderings) >= renderingsMax {
			oldest := slices.MinFunc(slices.Collect(maps.Keys(all.renderings)), func(a, b Viewer) int {
				return all.renderings[a].used.Compare(all.renderings[b].used)
			})
			delete(all.renderings, oldest) // who uses it now makes it once more
		}
		r = new(rendering)
		all.renderings[viewer] = r
	}
	r.used = time.Now()
	all.mu.Unlock()

	r.mu.Lock()
	defer r.mu.Unlock()
	if begun := time.Now(); begun.After(r.until) {
		locks := r.page.locks
		r.page = st.render(viewer, begun)
		r.page.locks = locks
		ended := time.Now()
		r.until = ended.Add(max(streamInterval-streamInterval/10, 10*ended.Sub(begun)))
	}
	// A redlockd that does not answer costs a second, in which the processor does nothing.
	if begun := time.Now(); viewer != nil && begun.After(r.locksUntil) {
		r.page.locks = newLocksView(viewer)
		ended := time.Now()
		r.locksUntil = ended.Add(max(locksInterval-streamInterval/10, 4*ended.Sub(begun)))
	}
	return r.page
}

// render makes the page.
func (st *Status) render(viewer Viewer, now time.Time) renderedPage {
	v := st.view(viewer, now)
	page := renderedPage{Title: v.Title, Host: v.Host, Tone: v.Tone, Parts: make(map[string]markup)}
	for id, part := range map[string]templ.Component{
		"verdict": verdictPart(v), "masters": mastersPart(v), "plots": plotsPart(v), "rates": ratesPart(v),
		"events": eventsPart(v), "facts": factsPart(v), "now": nowPart(v),
	} {
		page.Parts[id] = st.markup(id, part)
	}
	return page
}

// markup renders a part.
func (st *Status) markup(id string, part templ.Component) markup {
	var html strings.Builder
	// Only TEMPL_DEV_MODE=true in the environment makes this fail: templ then reads its texts from a file.
	if err := part.Render(context.Background(), &html); err != nil {
		st.Log.Error("a part of the status page cannot be shown", "part", id, "err", err, "to_do", "start redlockd without TEMPL_DEV_MODE")
	}
	return markup(html.String())
}

// servePage answers with the whole page. It is not cached, because an old answer to "do I get locks" is
// a wrong one.
func (st *Status) servePage(w http.ResponseWriter, r *http.Request) {
	viewer, ok := st.logIn(w, r)
	if !ok {
		return
	}
	var random [16]byte
	rand.Read(random[:])
	data := pageData{renderedPage: st.rendered(viewer), Nonce: base64.RawURLEncoding.EncodeToString(random[:]), Refusal: st.loginRefusal(r), Filter: filterOf(r)}
	if viewer != nil {
		data.User = viewer.Name()
	}
	var html bytes.Buffer
	if err := wholePage(&data).Render(r.Context(), &html); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", fmt.Sprintf("default-src 'none'; style-src 'nonce-%[1]s'; script-src 'nonce-%[1]s'; img-src data:; connect-src 'self'; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'", data.Nonce))
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	w.Write(html.Bytes())
}

// stream is a page that somebody follows.
type stream struct {
	origin netip.Prefix
	end    context.CancelFunc
}

// enter begins a stream.
func (p *pages) enter(s *stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.streams = append(p.streams, s)
	if len(p.streams) <= StreamsMax {
		return
	}
	count := make(map[netip.Prefix]int)
	for _, s := range p.streams {
		count[s.origin]++
	}
	// Of equal ones MinFunc takes the first, which is the oldest.
	worst := slices.MinFunc(p.streams, func(a, b *stream) int { return cmp.Compare(count[b.origin], count[a.origin]) })
	worst.end()
	p.removeLocked(worst)
}

// leave ends a stream.
func (p *pages) leave(s *stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removeLocked(s)
}

func (p *pages) removeLocked(s *stream) {
	p.streams = slices.DeleteFunc(p.streams, func(other *stream) bool { return other == s })
}

// liveMessage is one event of a stream.
type liveMessage struct {
	Title string `json:"title"`
	Tone  tone   `json:"tone"`
	// Parts has the HTML of those that have changed, by their id.
	Parts map[string]markup `json:"parts"`
	// End says why this is the last event; "": it is not.
	End string `json:"end,omitempty"`
}

// serveLive is a stream of events, one for each second, so that the script notices when they stay away.
func (st *Status) serveLive(w http.ResponseWriter, r *http.Request) {
	// A page of another site could not read the stream, but take one of StreamsMax.
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		http.Error(w, "this is for the status page of redlockd", http.StatusForbidden)
		return
	}
	viewer, ok := st.logIn(w, r)
	if !ok {
		return
	}
	ctx, end := context.WithCancel(r.Context())
	defer end()
	s := &stream{access.OriginOf(r.RemoteAddr), end}
	st.pages.enter(s)
	defer st.pages.leave(s)

	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would keep events back
	control := http.NewResponseController(w)
	control.SetReadDeadline(time.Time{}) // that of one request would end the stream
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	// send sends one event. JSON has no line end within, whatever a client has put into a name.
	send := func(m *liveMessage) error {
		control.SetWriteDeadline(time.Now().Add(streamWriteTimeout))
		fmt.Fprint(w, "data: ")
		encoder.Encode(m)
		fmt.Fprint(w, "\n")
		return control.Flush()
	}
	tick := time.NewTicker(streamInterval)
	defer tick.Stop()
	sent := make(map[string]markup)
	var locks *locksView // that was sent
	for viewer == nil || viewer.Known() {
		page := st.rendered(viewer)
		m := liveMessage{Title: page.Title, Tone: page.Tone, Parts: make(map[string]markup)}
		for id, html := range page.Parts {
			if before, ok := sent[id]; !ok || before != html {
				sent[id], m.Parts[id] = html, html
			}
		}
		if locks != page.locks {
			locks, m.Parts["locks"] = page.locks, st.markup("locks", lockList(page.locks.filtered(filterOf(r))))
		}
		if send(&m) != nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if r.Context().Err() == nil {
				send(&liveMessage{End: fmt.Sprintf("More than %d pages are open, and this one was the oldest.", StreamsMax)})
			}
			return
		}
	}
	send(&liveMessage{End: "Your user was changed or removed."}) // by Reload
}
