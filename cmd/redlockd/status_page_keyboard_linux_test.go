package main

// Goal: who has no mouse, or does not see the status page, can do all of it: look around, log in, look for a lock, log out. And nothing
// moves. Method: keys in Chromium.

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// press presses keys: Tab, Enter, or characters.
func (b *browser) press(keys ...string) {
	b.t.Helper()
	codes := map[string]int{"Tab": 9, "Enter": 13, "Backspace": 8}
	for _, key := range keys {
		down := map[string]any{"type": "keyDown", "key": key, "windowsVirtualKeyCode": codes[key], "text": map[string]string{"Tab": "", "Enter": "\r", "Backspace": ""}[key]}
		if codes[key] == 0 {
			down["text"] = key
		}
		b.do("Input.dispatchKeyEvent", down, nil)
		b.do("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "windowsVirtualKeyCode": codes[key]}, nil)
	}
}

// tab presses Tab until it has come to an element, and returns the places on the way: their ids or texts. Each must show that it has the focus.
func (b *browser) tab(to string) (places []string) {
	b.t.Helper()
	for range 20 {
		b.press("Tab")
		at := b.eval(`document.activeElement.id || document.activeElement.innerText`)
		if ring := b.eval(`(s => s.outlineStyle + " " + s.outlineWidth)(getComputedStyle(document.activeElement))`); ring != "solid 2px" {
			b.t.Errorf("%s: the focus shows by %q", at, ring)
		}
		if places = append(places, at); at == to {
			return places
		}
	}
	b.t.Fatalf("Tab does not come to %s: %q", to, places)
	return nil
}

func TestStatusPageByKeyboard(t *testing.T) {
	b := startBrowser(t)
	p := launch(t, "--config", configFile(t, `
		[auth]
		users = [{name = "ops", password = "right"}]
		`), "--masters", "embedded", "--http-listen", "127.0.0.1:0")
	c := p.dial()
	c.want("AUTH ops right", "OK")
	c.want("CLIENT SETNAME worker-7", "OK")
	c.grant("LOCK orders 60s NOTE nightly")
	c.grant("LOCK stock 60s")
	url := "http://" + p.web().addr + "/"
	b.screen(1280, false)
	b.do("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-reduced-motion", "value": "reduce"}}}, nil)
	b.open(url)
	b.await(`document.readyState == "complete"`)
	b.do("Fetch.enable", map[string]any{"handleAuthRequests": true}, nil)
	b.login = "ops:right"
	b.tab("Log in")
	b.press("Enter")
	b.await(`document.body?.innerText.includes("2 in all.")`)
	b.login = ""
	b.eval(`scrollTo(0, 0)`)
	if got, want := b.tab("/livez"), []string{"masters", "filter", "Log out", "locks", "events", "rates", "/metrics", "/readyz", "/livez"}; !slices.Equal(got, want) {
		t.Errorf("the order of Tab is %q, want %q", got, want)
	}
	for _, wrong := range []string{
		`document.querySelectorAll("th:not([scope]), section:not([aria-labelledby]), table:not([aria-labelledby]), [role=region]:not([aria-label], [aria-labelledby])").length`,
		`[...document.querySelectorAll("[aria-labelledby]")].filter(e => !document.getElementById(e.getAttribute("aria-labelledby"))).length`,
		`3 - document.querySelectorAll("body > header, body > main, body > footer").length`,
		`document.getAnimations().length`,
		`[...document.querySelectorAll("*")].filter(e => getComputedStyle(e).transitionDuration !== "0s" || getComputedStyle(e).animationName !== "none").length`,
	} {
		if n := b.eval(wrong); n != "0" {
			t.Errorf("%s: got %s, want 0", wrong, n)
		}
	}

	b.eval(`document.isTheSame = true`)
	b.open(url) // the next Tab begins at the top
	b.await(`document.readyState == "complete" && !document.isTheSame`)
	b.eval(`document.isTheSame = true`)
	b.tab("filter")
	b.press(strings.Split("NIGHT", "")...)
	b.await(`document.getElementById("locks").innerText.includes("1 of 2.")`)
	now := b.eval(`document.getElementById("now").innerText`)
	b.await(fmt.Sprintf(`document.getElementById("now").innerText !== %q`, now)) // the page has been refreshed
	if got := b.eval(`[document.activeElement.id, filter.value, document.isTheSame, document.getElementById("locks").innerText.includes("stock")].join()`); got != "filter,NIGHT,true,false" {
		t.Errorf("after a refresh: got %s", got)
	}
	b.press("x", "Enter")
	b.await(`document.getElementById("locks").innerText.includes("None of 2 locks has “NIGHTx”")`)
	b.press("Backspace", "Enter")
	b.open(b.eval("document.URL")) // as who loads it anew, or has it from somebody else
	b.await(`document.readyState == "complete" && !document.isTheSame && filter.value === "NIGHT" && document.getElementById("locks").innerText.includes("1 of 2.")`)

	b.tab("Log out")
	b.press("Enter")
	b.await(`document.body?.innerText.includes("you are logged out")`)
	if b.logins != 2 {
		t.Errorf("the browser has asked %d times for a password, want once for the login, and once after the logout", b.logins)
	}
	b.open(url)
	b.await(`document.body?.innerText.includes("Log in to see which resources")`)
}
