package config

// Goal: the Helm chart knows the settings. Method: its schema of values is compared with the table of settings, and its list of
// those that name files too.

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"redlockd/proxy"
)

const chartDir = "../../../docker/helm/"

// schemaOf is the JSON schema of what setTOML takes for the setting.
func schemaOf(s *Setting) string {
	switch s.place.(type) {
	case *string:
		if s.Words != nil {
			words, _ := json.Marshal(s.Words)
			return `{"enum": ` + strings.ReplaceAll(string(words), ",", ", ") + `}`
		}
		return `{"type": "string"}`
	case *int:
		return `{"type": "integer"}`
	case *float64:
		return `{"type": "number"}`
	case *bool, **bool, *unless:
		return `{"type": "boolean"}`
	case *time.Duration:
		return `{"$ref": "#/definitions/duration"}`
	case *oneOrMore:
		return `{"type": ["string", "array"], "items": {"type": "string"}}`
	case *patterns:
		return `{"type": ["boolean", "array"], "items": {"type": "string"}}`
	case *[]string:
		return `{"$ref": "#/definitions/strings"}`
	case *userList:
		return `{"type": "array", "minItems": 1, "items": ` + groupOf(new(userEntry).settings()) + `}`
	}
	return "of an unknown type"
}

func groupOf(settings []*Setting) string {
	var properties []string
	for _, s := range settings {
		properties = append(properties, `"`+s.Key()+`": `+schemaOf(s))
	}
	return `{"type": "object", "additionalProperties": false, "properties": {` + strings.Join(properties, ", ") + `}}`
}

// A setting that the chart does not know could not be used with it, and a mistyped one would be found by the pods, after the install.
func TestChartKnowsTheSettings(t *testing.T) {
	text, err := os.ReadFile(chartDir + "values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties struct {
			Settings struct {
				AdditionalProperties bool
				Properties           map[string]any
			}
		}
	}
	schema.Properties.Settings.AdditionalProperties = true
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"policy": `{"type": "array", "items": ` + groupOf(policySettings(new(proxy.Policy))) + `}`}
	groups := map[string][]*Setting{}
	for _, s := range Default().Settings {
		if s.Group() != "" {
			groups[s.Group()] = append(groups[s.Group()], s)
		}
	}
	for group, settings := range groups {
		want[group] = groupOf(settings)
	}
	if schema.Properties.Settings.AdditionalProperties {
		t.Error("the schema lets unknown groups pass")
	}
	got := schema.Properties.Settings.Properties
	for group, text := range want {
		var schema any
		if err := json.Unmarshal([]byte(text), &schema); err != nil {
			t.Fatalf("%s: %v in %s", group, err, text)
		}
		if !reflect.DeepEqual(got[group], schema) {
			t.Errorf("values.schema.json: settings.%s is %v; write it as\n%q: %s", group, got[group], group, text)
		}
		delete(got, group)
	}
	if len(got) > 0 {
		t.Errorf("values.schema.json has groups of settings that redlockd has not: %v", got)
	}
}

// The chart refuses a file that is in no volume, so it has a list of the settings that name files.
func TestChartKnowsTheFiles(t *testing.T) {
	text, err := os.ReadFile(chartDir + "templates/_checks.tpl")
	if err != nil {
		t.Fatal(err)
	}
	names := Default().Settings
	for _, s := range new(userEntry).settings() {
		names = append(names, &Setting{Name: "auth.users[%d]." + s.Name})
	}
	for _, s := range names {
		if regexp.MustCompile(`^(file|password_file|tls_cert|tls_key|tls_ca|tls_client_ca)$`).MatchString(s.Key()) || strings.HasPrefix(s.Usage, "file ") {
			if !strings.Contains(string(text), s.Name) {
				t.Errorf("_checks.tpl does not ask whether the file of %s is in a volume", s.Name)
			}
		}
	}
}
