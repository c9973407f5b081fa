package test

// Goal: a file that a setting names is where the pod has it. Method: redlockd itself starts with the config.toml of the chart. A folder
// stands in for the root of the container, and has at each mount what the volume has. The values are the examples of values.yaml.

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// files names files of all kinds.
const files = `
masters: {enabled: false, addresses: ["a:1"]}
extraVolumes: [{name: audit, persistentVolumeClaim: {claimName: audit}}, {name: http, secret: {secretName: http}}, {name: ca, configMap: {name: ca}}]
extraVolumeMounts:
  - {name: audit, mountPath: /var/log/redlockd/, subPath: a}
  - {name: http, mountPath: /etc/http, readOnly: true}
  - {name: ca, mountPath: /etc/ca.crt, subPath: ca.crt, readOnly: true}
settings:
  audit: {file: /var/log/redlockd/today/audit.jsonl}
  http: {tls_cert: /etc/http/a.crt, tls_key: /etc/http/a.key}
  master: {tls: true, tls_ca: /etc/ca.crt}
`

// examples are the blocks of values.yaml's comments that are values themselves.
func examples(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("../values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile(`(?m)(^#   .*\n)+`).FindAllString(string(text), -1) {
		all = append(all, strings.ReplaceAll(block, "#   ", ""))
	}
	return all
}

// program is a redlockd of this repository.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "redlockd")
	build := exec.Command("go", "build", "-o", path, "./cmd/redlockd")
	build.Dir = "../../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// certificate is one that signs itself, and its key.
func certificate(t *testing.T) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"redlockd"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})
}

func TestFilesAreWhereTheMountsSay(t *testing.T) {
	path := program(t)
	cert, key := certificate(t)
	password := map[string][]byte{"password": []byte("secret")}
	pair := map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": cert}
	volumes := map[string]map[string][]byte{"config": nil, "secret": password, "masters": password, "tls": pair, "audit": nil, "http-tls": pair, "masters-ca": pair}
	all := examples(t)
	if len(all) != 3 {
		t.Fatalf("values.yaml has %d examples, want those of an audit, TLS for HTTP, authorities of masters: %q", len(all), all)
	}
	all[2] += "masters: {enabled: false, addresses: ['localhost:1', 'localhost:2', 'localhost:3']}\n"
	for _, values := range append(all, "tls: {existingSecret: certificate, clientCA: true}", "settings: {audit: {file: stdout}}") {
		t.Run("", func(t *testing.T) {
			text := manifest(t, "redlockd", values)
			all := objects(t, text)
			var deployment appsv1.Deployment
			var config corev1.ConfigMap
			if err := json.Unmarshal(all["Deployment redlockd"], &deployment); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(all["ConfigMap redlockd"], &config); err != nil {
				t.Fatal(err)
			}
			root, toml := t.TempDir(), config.Data["config.toml"]
			pod := deployment.Spec.Template.Spec
			for _, mount := range pod.Containers[0].VolumeMounts {
				content, known := volumes[mount.Name]
				if !known {
					t.Fatalf("the test has no volume %s", mount.Name)
				}
				if err := os.MkdirAll(root+mount.MountPath, 0o700); err != nil {
					t.Fatal(err)
				}
				for name, text := range content {
					if err := os.WriteFile(filepath.Join(root+mount.MountPath, name), text, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				toml = strings.ReplaceAll(toml, `"`+mount.MountPath+`/`, `"`+root+mount.MountPath+`/`)
			}
			if len(pod.Volumes) != len(pod.Containers[0].VolumeMounts) {
				t.Errorf("got the volumes %v and the mounts %v", pod.Volumes, pod.Containers[0].VolumeMounts)
			}
			file := root + "/etc/redlockd/config.toml"
			if err := os.WriteFile(file, []byte(toml), 0o600); err != nil {
				t.Fatal(err)
			}
			server := exec.CommandContext(t.Context(), path, "serve", "--config", file, "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0")
			server.Env = []string{}
			log, err := server.StderrPipe()
			if err == nil {
				err = server.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			lines, seen := bufio.NewScanner(log), new(bytes.Buffer)
			for lines.Scan() {
				seen.WriteString(lines.Text() + "\n")
				if strings.Contains(lines.Text(), `"msg":"listening"`) {
					break
				}
			}
			_ = server.Process.Kill()
			_ = server.Wait()
			if !strings.Contains(seen.String(), `"msg":"listening"`) {
				t.Fatalf("redlockd does not start with\n%s%s\nand says\n%s", values, toml, seen)
			}
			if _, err := os.Stat(root + "/var/log/redlockd/audit.jsonl"); strings.Contains(values, "/var/log/") && err != nil {
				t.Error(err)
			}
		})
	}
}
