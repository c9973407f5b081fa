package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/redisproc"
)

// browser is a Chromium without a window, driven by its DevTools protocol over a pipe: JSON messages with a NUL behind each. A library
// for that (chromedp) has tens of thousands of generated lines, which every run of the tests would compile; this needs six commands.
type browser struct {
	t       *testing.T
	in      io.Writer
	out     *bufio.Reader
	lastID  int
	session string // of the one tab
	// login is the name and the password to type when the browser asks for them; "": who is asked cancels. logins counts how often it asked.
	login  string
	logins int
}

// startBrowser starts a Chromium with one tab, until the end of the test.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	redisproc.Long(t)
	redisproc.Need(t, "chromium")
	fromUs, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, toUs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// Not t.TempDir: processes of the browser that end behind the first one may still write there, and that is no fault of the test.
	profile, err := os.MkdirTemp("", "redlockd-browser-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(profile) })
	args := []string{"--headless", "--remote-debugging-pipe", "--user-data-dir=" + profile, "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage",
		"--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--no-proxy-server"}
	if os.Getuid() == 0 {
		args = append(args, "--no-sandbox") // it refuses to run as root otherwise
	}
	cmd := exec.Command("chromium", args...)
	cmd.ExtraFiles = []*os.File{fromUs, toUs} // 3 and 4: so the protocol has it
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fromUs.Close()
	toUs.Close()
	b := &browser{t: t, in: in, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		b.do("Browser.close", nil, nil)
		in.Close()
		cmd.Wait()
		out.Close()
	})
	var target struct{ TargetID string }
	b.do("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.do("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	b.do("Page.enable", nil, nil)
	return b
}

// do runs a command of the protocol and reads its result. It passes over events.
func (b *browser) do(method string, params map[string]any, result any) {
	b.t.Helper()
	id := b.send(method, params)
	for {
		text, err := b.out.ReadBytes(0)
		if errors.Is(err, io.EOF) && method == "Browser.close" {
			return
		}
		if err != nil {
			b.t.Fatalf("%s: %v", method, err)
		}
		var answer struct {
			ID     int
			Method string
			Params struct{ RequestID string }
			Error  *struct{ Message string }
			Result json.RawMessage
		}
		if err := json.Unmarshal(text[:len(text)-1], &answer); err != nil {
			b.t.Fatalf("%s: %v: %s", method, err, text)
		}
		if answer.Method != "" {
			b.event(answer.Method, answer.Params.RequestID)
		}
		if answer.ID != id {
			continue
		}
		if answer.Error != nil {
			b.t.Fatalf("%s: %s", method, answer.Error.Message)
		}
		if result != nil {
			if err := json.Unmarshal(answer.Result, result); err != nil {
				b.t.Fatalf("%s: %v", method, err)
			}
		}
		return
	}
}

// send sends a command and returns its number.
func (b *browser) send(method string, params map[string]any) (id int) {
	b.t.Helper()
	b.lastID++
	message := map[string]any{"id": b.lastID, "method": method, "params": params}
	if b.session != "" && !strings.HasPrefix(method, "Browser.") {
		message["sessionId"] = b.session
	}
	text, err := json.Marshal(message)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.in.Write(append(text, 0)); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	return b.lastID
}

// event answers for the user whom the browser asks for a password.
func (b *browser) event(method, request string) {
	b.t.Helper()
	switch method {
	case "Fetch.requestPaused":
		b.send("Fetch.continueRequest", map[string]any{"requestId": request})
	case "Fetch.authRequired":
		b.logins++
		response := map[string]any{"response": "CancelAuth"}
		if name, password, ok := strings.Cut(b.login, ":"); ok {
			response = map[string]any{"response": "ProvideCredentials", "username": name, "password": password}
		}
		b.send("Fetch.continueWithAuth", map[string]any{"requestId": request, "authChallengeResponse": response})
	}
}

// open has the tab show a page.
func (b *browser) open(url string) {
	b.t.Helper()
	var answer struct{ ErrorText string }
	if b.do("Page.navigate", map[string]any{"url": url}, &answer); answer.ErrorText != "" {
		b.t.Fatalf("%s: %s", url, answer.ErrorText)
	}
}

// screen sets the width of the tab, and whether its user prefers dark pages.
func (b *browser) screen(width int, dark bool) {
	b.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	b.do("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	b.do("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// eval returns what an expression of JavaScript is in the page, as text.
func (b *browser) eval(expression string) string {
	b.t.Helper()
	var answer struct {
		Result           struct{ Value any }
		ExceptionDetails *struct{ Text string }
	}
	b.do("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &answer)
	if answer.ExceptionDetails != nil {
		return "exception: " + answer.ExceptionDetails.Text
	}
	return fmt.Sprint(answer.Result.Value)
}

// await waits until an expression is true.
func (b *browser) await(expression string) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); b.eval(expression) != "true"; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatalf("still not %s; the page is\n%s\n%s", expression, b.eval("document.title"), b.eval("document.body.innerText"))
		}
	}
}
