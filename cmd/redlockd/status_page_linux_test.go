package main

// Goal: the status page works in a browser as its users have it: it follows what happens, in the tab's
// title and icon too, shows locks after a login, fits a phone, runs nothing that a client has put into
// a name, and says when it is not of now. Method: a redlockd over real masters, and Chromium. With
// REDLOCK_PICTURES=dir the test leaves pictures of the page there.

import (
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

// pictures has the picture of each state taken, in both widths, light and dark, and checks that nothing
// scrolls sideways.
func (b *browser) pictures(state string) {
	b.t.Helper()
	for _, width := range []int{1280, 390} {
		for _, dark := range []bool{false, true} {
			b.screen(width, dark)
			if got := b.eval("document.documentElement.scrollWidth > innerWidth"); got != "false" {
				b.t.Errorf("%s: the page is wider than %d: %s", state, width, b.eval("document.documentElement.scrollWidth"))
			}
			if faint := b.eval(faintTexts); faint != "" {
				b.t.Errorf("%s, %d, dark %v: texts with a contrast below 4.5 (WCAG 1.4.3): %s", state, width, dark, faint)
			}
			if dir := os.Getenv("REDLOCK_PICTURES"); dir != "" {
				b.shot(fmt.Sprintf("%s/%s-%d-%s.png", dir, state, width, map[bool]string{false: "light", true: "dark"}[dark]),
					width, min(atoi(b.eval("document.documentElement.scrollHeight")), 3000))
			}
		}
	}
}

// faintTexts lists the texts whose contrast to what is behind them is below 4.5, as the browser draws them.
const faintTexts = `(() => {
	const parts = colour => colour.match(/[\d.]+/g).map(Number)
	const light = colour => {
		const [r, g, b] = parts(colour).map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
		return 0.2126 * r + 0.7152 * g + 0.0722 * b
	}
	const behind = element => {
		for (; element; element = element.parentElement) {
			const colour = getComputedStyle(element).backgroundColor
			if (parts(colour)[3] !== 0) return colour
		}
		return "rgb(255, 255, 255)"
	}
	const faint = new Set()
	const check = (text, element, colour) => {
		const [a, b] = [light(colour), light(behind(element))].sort((a, b) => b - a)
		if ((a + 0.05) / (b + 0.05) < 4.5) faint.add(text + " " + colour + " on " + behind(element))
	}
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
	while (texts.nextNode()) {
		const element = texts.currentNode.parentElement
		if (!texts.currentNode.data.trim() || !element.checkVisibility()) continue
		if (getComputedStyle(element).opacity !== "1") faint.add("translucent: " + texts.currentNode.data)
		check(texts.currentNode.data.trim(), element, getComputedStyle(element).color)
	}
	for (const input of document.querySelectorAll("input")) {
		check("what is written", input, getComputedStyle(input).color)
		check(input.placeholder, input, getComputedStyle(input, "::placeholder").color)
	}
	return [...faint].slice(0, 5).join("; ")
})()`

// shot leaves a picture of the page, from its top.
func (b *browser) shot(name string, width, height int) {
	b.t.Helper()
	var shot struct{ Data string }
	b.do("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true, "clip": map[string]any{
		"x": 0, "y": 0, "scale": 1, "width": width, "height": height}}, &shot)
	picture, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(name, picture, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func atoi(text string) (n int) {
	fmt.Sscan(text, &n)
	return n
}

// manyLocks has a master hold so many that it takes seconds to copy them.
func manyLocks(t *testing.T, addr string) {
	t.Helper()
	redisCLI(t, addr, "EVAL", "for i = 1, 200000 do redis.call('SET', 'many:' .. i, 'token', 'PX', 3000000) end", "0")
}

func TestStatusPageInABrowser(t *testing.T) {
	b := startBrowser(t)
	masters, list := startMasters(t, 5)
	file := configFile(t, `
		[auth]
		users = [{name = "ops", password = "right"}, {name = "billing", password = "bill", resources = ["billing:*"]}]
		`)
	p := launch(t, "--config", file, "--masters", list, "--max-ttl", "1h", "--http-listen", "127.0.0.1:0", "--bootstrap")
	c := p.dial()
	c.want("AUTH ops right", "OK")
	c.want("CLIENT SETNAME worker-7", "OK")
	c.send("LOCK <script>window.ran=1</script><img/src=x/onerror=window.ran=1> 3600000 NOTE <b>nightly</b>")
	c.reply()
	for i := range 20 {
		c.send(fmt.Sprintf("LOCK billing:invoice:%04d:of-a-customer-with-a-long-name 3600000", i))
		c.reply()
	}
	for range 3 {
		waiter := p.dial()
		waiter.want("AUTH ops right", "OK")
		waiter.send("LOCK billing:invoice:0007:of-a-customer-with-a-long-name 3600000 WAIT 3600000")
	}

	// What the policy of the page forbids, and errors of the script, are collected by the browser.
	b.do("Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": `
		window.faults = []
		addEventListener("securitypolicyviolation", e => faults.push(e.violatedDirective + " " + e.blockedURI))
		addEventListener("error", e => faults.push(e.message))`}, nil)
	url := "http://" + p.web().addr + "/"
	wantPage := func(conditions ...string) {
		t.Helper()
		for _, condition := range conditions {
			b.await(condition)
		}
		if faults := b.eval("faults.join()"); faults != "" {
			t.Errorf("faults in the page: %s", faults)
		}
		if got := b.eval("window.ran"); got != "<nil>" {
			t.Error("the page has run what a client put into a name")
		}
	}
	tone := func(tone, title string) []string {
		colour := map[string]string{"good": "#18794e", "warn": "#b45309", "bad": "#c01f2b"}[tone]
		return []string{
			fmt.Sprintf("document.title.startsWith(%q)", title),
			fmt.Sprintf(`decodeURIComponent(document.getElementById("icon").href).includes('fill="%s"')`, colour),
			fmt.Sprintf(`document.querySelector("#verdict .box").classList.contains(%q)`, tone),
		}
	}

	b.screen(1280, false)
	b.open(url)
	wantPage(tone("good", "redlockd")...)
	wantPage(`document.body.innerText.includes("Log in to see which resources")`, `!document.body.innerText.includes("billing")`)
	b.pictures("anonymous")

	// After the login the browser sends the password by itself, with the stream too.
	b.open(strings.Replace(url, "//", "//ops:right@", 1) + "login")
	b.await(`document.URL.endsWith("/") && document.readyState == "complete"`)
	b.open(url)
	wantPage(`document.body?.innerText.includes("Logged in as ops")`, `document.getElementById("locks").innerText.includes("<script>window.ran=1</script>")`,
		`document.querySelector("#locks tbody tr").innerText.includes("billing:invoice:0007")`, `document.getElementById("lost").hidden`)
	b.eval("document.isTheSame = true")
	wantPage(`document.querySelectorAll("#plots path").length == 11`) // after ten seconds
	b.pictures("healthy")

	for _, m := range masters {
		manyLocks(t, m.Addr)
	}
	masters[0].Kill()
	wantPage(tone("warn", "4 of 5")...)
	wantPage(`document.getElementById("masters").innerText.includes("has no vote: down")`)
	b.pictures("master-down")
	if err := masters[0].Restart(); err != nil {
		t.Fatal(err)
	}
	wantPage(`document.getElementById("masters").innerText.includes("quarantined")`, `document.getElementById("masters").innerText.includes("It is being given what")`)
	b.pictures("quarantine")

	for _, m := range masters[2:] {
		m.Kill()
	}
	wantPage(tone("bad", "no locks")...)
	wantPage(`document.getElementById("events").innerText.includes("the quorum is lost")`, "document.isTheSame === true")
	b.pictures("quorum-lost")

	// A user with a list of resources, in a browser that has not logged in as another one: 127.0.0.1
	// and localhost are two sites.
	b.open(strings.Replace(strings.Replace(url, "127.0.0.1", "localhost", 1), "//", "//billing:bill@", 1) + "login")
	b.await(`document.URL.endsWith("/") && document.readyState == "complete"`)
	b.open(strings.Replace(url, "127.0.0.1", "localhost", 1))
	wantPage(`document.body?.innerText.includes("Logged in as billing")`, `document.getElementById("locks").innerText.includes("20 in all.")`,
		`!document.body.innerText.includes("<script>")`)
	b.pictures("confined")

	// The page does not show what was as what is.
	p.signal(syscall.SIGKILL)
	wantPage(`document.title.startsWith("no connection – ")`, `!document.getElementById("lost").hidden`)
	b.pictures("no-connection")
}
