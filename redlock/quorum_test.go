package redlock

// The quorum rule as tables: every row is the votes in the order of the masters, and what has been decided by then.
// The exhaustive test holds the rule against its definition over all 7^N words.

import "testing"

var voteLetters = map[rune]vote{
	'.': votePending, 'g': voteGranted, 'm': voteMine, 'd': voteDenied, 'a': voteAbsent, 'x': voteAbstained, '?': voteUnknown,
}

func word(letters string) votes {
	var v votes
	for i, l := range []rune(letters) {
		v += cast(i, voteLetters[l])
	}
	return v
}

func TestAcquisitionOutcome(t *testing.T) {
	for _, tt := range []struct {
		votes string
		want  outcome
	}{
		{".....", undecided},
		{"gg...", undecided},
		{"ggg..", yes},
		{"gmg..", yes},
		{"ggg??", yes},
		{"dd...", undecided}, // three others may still grant
		{"ddd..", no},        // a quorum answered, and no quorum can grant
		{"ggdd.", undecided},
		{"ggdd?", no}, // four answered: contended, not an outage
		{"ggddd", no}, // a split vote
		{"gg?..", undecided},
		{"gg??.", undecided}, // the last one can still make it a quorum of grants
		{"gg??d", no},        // 2 grants and a denial: a quorum answered
		{"gg???", noQuorum},
		{"ggxxx", noQuorum},
		{"dd??.", undecided}, // the last answer tells null from NOQUORUM
		{"dd??x", noQuorum},
		{"mmdd.", undecided},
		{"mmdd?", noQuorum}, // the silent one may hold the token, as two others do
		{"dm??.", noQuorum},
		{"dm?d.", undecided},
		{"dm?dm", noQuorum},
		{"dm?dd", no},
		{"mgdd?", no},       // where the key was free the token did not hold it
		{"xxx..", noQuorum}, // two cannot be a quorum, whatever they say
		{"?????", noQuorum},
		{"g", yes}, {"d", no}, {"x", noQuorum}, {".", undecided},
		{"gg.", yes}, {"g.d", undecided}, {"d?.", undecided}, {"d??", noQuorum},
	} {
		if got := acquisitionOutcome(word(tt.votes), len(tt.votes)); got != tt.want {
			t.Errorf("acquisition %s: got %d, want %d", tt.votes, got, tt.want)
		}
	}
}

func TestReleaseOutcome(t *testing.T) {
	for _, tt := range []struct {
		votes string
		want  outcome
	}{
		{"g....", undecided},
		{"gg...", undecided}, // three others may still hold it
		{"ggg..", yes},
		{"gaa..", yes}, // removed somewhere, and two cannot hold it
		{"aaa..", no},
		{"ada..", no},
		{"gg??.", undecided},
		{"gg??g", yes},
		{"gg???", noQuorum}, // three may still hold it: the release is kept
		{"xxx..", noQuorum},
		{"g", yes}, {"a", no}, {"?", noQuorum},
	} {
		if got := releaseOutcome(word(tt.votes), len(tt.votes)); got != tt.want {
			t.Errorf("release %s: got %d, want %d", tt.votes, got, tt.want)
		}
	}
}

func TestExtensionOutcome(t *testing.T) {
	for _, tt := range []struct {
		votes string
		want  outcome
	}{
		{"ggg..", yes},
		{"ggaa.", undecided},
		{"aaa..", no},
		{"ada..", no},
		{"ggaad", no},
		{"gga??", noQuorum},
		{"gg???", noQuorum},
		{"gg??.", undecided},
		{"aa??.", undecided}, // the last answer tells "lost" from "unknown"
		{"aa???", noQuorum},
		{"g", yes}, {"a", no}, {"?", noQuorum},
	} {
		if got := extensionOutcome(word(tt.votes), len(tt.votes)); got != tt.want {
			t.Errorf("extension %s: got %d, want %d", tt.votes, got, tt.want)
		}
	}
}

// TestOutcomesAreFinal goes through all words of five masters and checks what the engine builds on: a decision stands,
// whatever is heard later, except that a release or an acquisition may be decided for the better earlier than it would
// have been later; it never turns from no into granted; and complete words are always decided.
func TestOutcomesAreFinal(t *testing.T) {
	const n = 5
	rules := map[string]func(votes, int) outcome{
		"acquisition": acquisitionOutcome, "extension": extensionOutcome, "release": releaseOutcome,
	}
	var all func(v votes, master int)
	all = func(v votes, master int) {
		if master < n {
			for kind := range voteKinds {
				all(v+cast(master, kind), master+1)
			}
			return
		}
		for name, rule := range rules {
			o := rule(v, n)
			if v.tooFew(n) && o != undecided {
				t.Fatalf("%s %x: too few votes are in, and it is decided", name, v)
			}
			if v.tally(n).of(votePending) == 0 && o == undecided {
				t.Fatalf("%s %x: all votes are in, and nothing is decided", name, v)
			}
			if o != no && o != noQuorum {
				continue
			}
			// However the pending votes come in, an acquisition or extension that was refused must not become granted.
			if name == "release" {
				continue
			}
			for i := range n {
				if v.of(i) == votePending {
					if later := rule(v+cast(i, voteGranted), n); later == yes {
						t.Fatalf("%s %x: decided as %d, and granted by one more vote", name, v, o)
					}
				}
			}
		}
	}
	all(0, 0)
}

func TestVotesPackFifteenMasters(t *testing.T) {
	var v votes
	for i := range MaxMasters {
		v += cast(i, voteUnknown)
	}
	for i := range MaxMasters {
		if got := v.of(i); got != voteUnknown {
			t.Errorf("master %d: got vote %d, want %d", i, got, voteUnknown)
		}
	}
	if got := v.mayHold(MaxMasters); got != toAll {
		t.Errorf("mayHold: got %b, want all 15", got)
	}
	if got := word("g.d?xam").mayHold(7); got != 0b1001011 {
		t.Errorf("mayHold of g.d?xam: got %b, want 1001011", got)
	}
}

// TestGapsDoNotVote puts every word of three masters into five places, with two gaps wherever they can be, and demands the outcome of the
// three.
func TestGapsDoNotVote(t *testing.T) {
	rules := map[string]func(votes, int) outcome{
		"acquisition": acquisitionOutcome, "extension": extensionOutcome, "release": releaseOutcome, "reading": readingOutcome,
	}
	kinds := int(voteNobody)
	for w := range kinds * kinds * kinds {
		three := []vote{vote(w % kinds), vote(w / kinds % kinds), vote(w / kinds / kinds)}
		var dense votes
		for i, v := range three {
			dense += cast(i, v)
		}
		for gaps := range 1 << 5 {
			if mask(gaps).count() != 2 {
				continue
			}
			var sparse votes
			next := 0
			for place := range 5 {
				if mask(gaps).has(place) {
					sparse += cast(place, voteNobody)
					continue
				}
				sparse += cast(place, three[next])
				next++
			}
			for name, rule := range rules {
				if got, want := rule(sparse, 5), rule(dense, 3); got != want {
					t.Fatalf("%s %x with gaps %05b: got %d, want %d", name, dense, gaps, got, want)
				}
				if sparse.tooFew(5) && rule(dense, 3) != undecided && name != "reading" {
					t.Fatalf("%s %x with gaps %05b: too few votes are in, and it is decided", name, dense, gaps)
				}
			}
		}
	}
}
