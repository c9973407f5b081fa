package test

// Goal: the commands that docker/README.md, kubernetes.yaml and the notes have for Kubernetes work as they stand. Method: what helm would
// install is rendered, and what kubectl names must be among the objects.

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/strvals"
)

func TestCommandsOfThePages(t *testing.T) {
	files, err := render("redlockd", "")
	if err != nil {
		t.Fatal(err)
	}
	all := objects(t, manifest(t, "redlockd", ""))
	var objects strings.Builder
	for name, object := range all {
		objects.WriteString(name + "\n" + string(object))
	}
	helm := regexp.MustCompile(`(?m)^helm (?:install|upgrade) redlockd docker/helm(.*?)(?:   .*)?$`)
	named := regexp.MustCompile(`kubectl (?:--namespace locks )?(?:exec deploy/|rollout \w+ (deployment|statefulset)\s+|create secret generic )([a-z-]+)`)
	for page, least := range map[string]int{"../../README.md": 9, manifestFile: 3, "notes": 4} {
		text := []byte(files["redlockd/templates/NOTES.txt"])
		if page != "notes" {
			if text, err = os.ReadFile(page); err != nil {
				t.Fatal(err)
			}
		}
		found := 0
		for _, command := range helm.FindAllStringSubmatch(string(text), -1) {
			values := map[string]any{}
			if strings.HasPrefix(command[0], "helm install") {
				values["image"] = map[string]any{} // without one of render
			}
			for _, set := range regexp.MustCompile(`--set (\S+)`).FindAllStringSubmatch(command[1], -1) {
				if err := strvals.ParseInto(set[1], values); err != nil {
					t.Errorf("%s: %s: %v", page, command[0], err)
				}
			}
			text, err := json.Marshal(values)
			if err == nil {
				_, err = render("redlockd", string(text))
			}
			if err != nil {
				t.Errorf("%s: %s: %v", page, command[0], err)
			}
			found++
		}
		for _, command := range named.FindAllStringSubmatch(string(text), -1) {
			kind := map[string]string{"statefulset": "StatefulSet", "deployment": "Deployment"}[command[1]]
			switch {
			case strings.Contains(command[0], " secret "):
				if !strings.Contains(objects.String(), `"secretName":"`+command[2]+`"`) {
					t.Errorf("%s: %s: no pod wants this Secret", page, command[0])
				}
			case kind == "" && all["Deployment "+command[2]] == nil, kind != "" && all[kind+" "+command[2]] == nil:
				t.Errorf("%s: %s: there is no such object", page, command[0])
			}
			found++
		}
		if found < least {
			t.Errorf("%s: found %d commands, want %d at least", page, found, least)
		}
	}
}
