package redisproc

// Goal: tests know which server they run on, and compare with it what can be compared. Method: programs that only have a name.

import "testing"

func TestServersOfVersions(t *testing.T) {
	named := func(version string) *Server {
		said.Store(version, version)
		return &Server{program: version}
	}
	for _, tt := range []struct {
		version string
		before  bool // 7.0
	}{
		{"Redis 5.0.6", true}, {"Redis 6.2.14", true}, {"Redis 7.0.15", false}, {"Redis 10.1.0", false}, {"Valkey 8.1.8", false},
	} {
		if got := named(tt.version).Before(7, 0); got != tt.before {
			t.Errorf("%s is before 7.0: got %v, want %v", tt.version, got, tt.before)
		}
	}
	for _, tt := range []struct {
		ours, real  string
		same, alike bool // to 7.0, and to another version
	}{
		{":1\r\n", ":1\r\n", true, true},
		{":1\r\n", ":2\r\n", false, false},
		{"-ERR a\r\n", "-ERR b\r\n", false, true},
		{"-ERR a\r\n", ":1\r\n", false, false},
		{"-WRONGTYPE a\r\n", "-OOM b\r\n", false, false},
		{"-WRONGTYPE a\r\n", "-ERR Error running script (call to f_0): @user_script:1: WRONGTYPE a\r\n", false, true},
		{"$5\r\n1e+17\r\n", "$18\r\n100000000000000000\r\n", false, true},
		{"$5\r\ntoken\r\n", "$4\r\ntoke\r\n", false, false},
	} {
		for version, want := range map[string]bool{"Redis 7.0.15": tt.same, "Redis 8.0.2": tt.alike} {
			if got := named(version).Alike(tt.ours, tt.real); got != want {
				t.Errorf("%s: %q and %q are alike: got %v, want %v", version, tt.ours, tt.real, got, want)
			}
		}
	}
}
