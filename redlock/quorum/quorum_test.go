package quorum

// The quorum rule as tables: every row is the votes in the order of the masters, and what has been decided by then.
// The exhaustive test holds the rule against its definition over all 7^N words.

import "testing"

var voteLetters = map[rune]Vote{
	'.': Pending, 'g': Granted, 'm': AlreadyMine, 'd': Denied, 'a': Absent, 'x': Abstained, '?': Unknown, 's': Stale, 'r': AsReader,
}

func word(letters string) Votes {
	var v Votes
	for i, l := range []rune(letters) {
		v += Cast(i, voteLetters[l])
	}
	return v
}

type outcomeRow struct {
	votes string
	want  Outcome
}

// checkOutcomes compares what a rule says of votes with a table.
func checkOutcomes(t *testing.T, rule func(Votes, int) Outcome, table []outcomeRow) {
	t.Helper()
	for _, row := range table {
		if got := rule(word(row.votes), len(row.votes)); got != row.want {
			t.Errorf("%s: got %d, want %d", row.votes, got, row.want)
		}
	}
}

func TestAcquisitionOutcome(t *testing.T) {
	checkOutcomes(t, Acquisition, []outcomeRow{
		{".....", Undecided},
		{"gg...", Undecided},
		{"ggg..", Yes},
		{"gmg..", Yes},
		{"ggg??", Yes},
		{"dd...", Undecided}, // three others may still grant
		{"ddd..", No},        // a quorum answered, and no quorum can grant
		{"ggdd.", Undecided},
		{"ggdd?", No}, // four answered: contended, not an outage
		{"ggddd", No}, // a split vote
		{"gg?..", Undecided},
		{"gg??.", Undecided}, // the last one can still make it a quorum of grants
		{"gg??d", No},        // 2 grants and a denial: a quorum answered
		{"gg???", NoQuorum},
		{"ggxxx", NoQuorum},
		{"dd??.", Undecided}, // the last answer tells null from NOQUORUM
		{"dd??x", NoQuorum},
		{"mmdd.", Undecided},
		{"mmdd?", NoQuorum}, // the silent one may hold the token, as two others do
		{"dm??.", NoQuorum},
		{"dm?d.", Undecided},
		{"dm?dm", NoQuorum},
		{"dm?dd", No},
		{"mgdd?", No},       // where the key was free the token did not hold it
		{"xxx..", NoQuorum}, // two cannot be a quorum, whatever they say
		{"?????", NoQuorum},
		{"ada..", No}, // some changes need the key there
		{"sds..", No},
		{"g", Yes}, {"d", No}, {"x", NoQuorum}, {".", Undecided},
		{"dd?.", Undecided}, {"md?.", Undecided}, {"dd?d", No}, // of four, three are a quorum
		{"gg.", Yes}, {"g.d", Undecided}, {"d?.", Undecided}, {"d??", NoQuorum},
	})
}

func TestReleaseOutcome(t *testing.T) {
	checkOutcomes(t, Release, []outcomeRow{
		{"g....", Undecided},
		{"gg...", Undecided}, // three others may still hold it
		{"ggg..", Yes},
		{"gaa..", Yes}, // removed somewhere, and two cannot hold it
		{"aaa..", No},
		{"ada..", No},
		{"gg??.", Undecided},
		{"gg??g", Yes},
		{"gg???", NoQuorum}, // three may still hold it: the release is kept
		{"xxx..", NoQuorum},
		{"g", Yes}, {"a", No}, {"?", NoQuorum},
	})
}

func TestExtensionOutcome(t *testing.T) {
	checkOutcomes(t, Extension, []outcomeRow{
		{"ggg..", Yes},
		{"ggaa.", Undecided},
		{"aaa..", No},
		{"ada..", No},
		{"ggaad", No},
		{"ggrr.", Undecided}, // it may be there as a writer's in most places
		{"ggrrr", Yes},
		{"grar.", Undecided},
		{"ggra.", Undecided},
		{"ggraa", No},
		{"rgadr", No},
		{"gga??", NoQuorum},
		{"gg???", NoQuorum},
		{"gg??.", Undecided},
		{"aa??.", Undecided}, // the last answer tells "lost" from "unknown"
		{"aa???", NoQuorum},
		{"g", Yes}, {"a", No}, {"?", NoQuorum},
	})
}

// TestOutcomesAreFinal goes through all words of five masters and checks what the engine builds on: a decision stands,
// whatever is heard later, except that a release or an acquisition may be decided for the better earlier than it would
// have been later; it never turns from no into granted; and complete words are always decided.
func TestOutcomesAreFinal(t *testing.T) {
	const n = 5
	rules := map[string]func(Votes, int) Outcome{
		"acquisition": Acquisition, "extension": Extension, "release": Release,
	}
	var all func(v Votes, master int)
	all = func(v Votes, master int) {
		if master < n {
			for kind := range voteKinds {
				all(v+Cast(master, kind), master+1)
			}
			return
		}
		for name, rule := range rules {
			o := rule(v, n)
			if v.TooFew(n) && o != Undecided {
				t.Fatalf("%s %x: too few votes are in, and it is decided", name, v)
			}
			if few := v.Voted(n).Count() <= n-Of(n); v.TooFew(n) != few && v.Tally(n).Of(Nobody) == 0 {
				t.Fatalf("%x: got that too few votes are in: %v, want %v", v, v.TooFew(n), few)
			}
			if v.Tally(n).Of(Pending) == 0 && o == Undecided {
				t.Fatalf("%s %x: all votes are in, and nothing is decided", name, v)
			}
			if o != No && o != NoQuorum {
				continue
			}
			// However the pending votes come in, an acquisition or extension that was refused must not become granted.
			if name == "release" {
				continue
			}
			for i := range n {
				if v.Of(i) == Pending {
					if later := rule(v+Cast(i, Granted), n); later == Yes {
						t.Fatalf("%s %x: decided as %d, and granted by one more vote", name, v, o)
					}
				}
			}
		}
	}
	all(0, 0)
}

func TestVotesPackFifteenMasters(t *testing.T) {
	var v Votes
	for i := range MaxMasters {
		v += Cast(i, Unknown)
	}
	for i := range MaxMasters {
		if got := v.Of(i); got != Unknown {
			t.Errorf("master %d: got vote %d, want %d", i, got, Unknown)
		}
	}
	if got := v.MayHold(MaxMasters); got != All {
		t.Errorf("mayHold: got %b, want all 15", got)
	}
	if got := word("g.d?xam").MayHold(7); got != 0b1001011 {
		t.Errorf("mayHold of g.d?xam: got %b, want 1001011", got)
	}
}

// Of a vote that does not count, what its master may hold stays.
func TestUncounted(t *testing.T) {
	want := [voteKinds]Vote{Granted: Done, AlreadyMine: Done, AsReader: Done, Absent: Hole, Denied: Abstained, Stale: Abstained,
		Pending: Pending, Renewed: Renewed, Abstained: Abstained, Unknown: Unknown, Hole: Hole, Done: Done, Nobody: Nobody}
	for v := range voteKinds {
		if got := v.Uncounted(); got != want[v] {
			t.Errorf("vote %d: got %d, want %d", v, got, want[v])
		}
	}
}

// TestGapsDoNotVote puts every word of three masters into five places, with two gaps wherever they can be, and demands the outcome of the
// three.
func TestGapsDoNotVote(t *testing.T) {
	rules := map[string]func(Votes, int) Outcome{
		"acquisition": Acquisition, "extension": Extension, "release": Release, "reading": Reading,
	}
	kinds := int(Nobody)
	for w := range kinds * kinds * kinds {
		three := []Vote{Vote(w % kinds), Vote(w / kinds % kinds), Vote(w / kinds / kinds)}
		var dense Votes
		for i, v := range three {
			dense += Cast(i, v)
		}
		for gaps := range 1 << 5 {
			if Mask(gaps).Count() != 2 {
				continue
			}
			var sparse Votes
			next := 0
			for place := range 5 {
				if Mask(gaps).Has(place) {
					sparse += Cast(place, Nobody)
					continue
				}
				sparse += Cast(place, three[next])
				next++
			}
			for name, rule := range rules {
				if got, want := rule(sparse, 5), rule(dense, 3); got != want {
					t.Fatalf("%s %x with gaps %05b: got %d, want %d", name, dense, gaps, got, want)
				}
				if sparse.TooFew(5) && rule(dense, 3) != Undecided && name != "reading" {
					t.Fatalf("%s %x with gaps %05b: too few votes are in, and it is decided", name, dense, gaps)
				}
			}
		}
	}
}

func TestStanding(t *testing.T) {
	for _, tt := range []struct {
		s       Standing
		quorum  bool
		mayFail int
		text    string
	}{
		{Standing{Seats: 5, Voting: 5}, true, 2, "5 of 5 seats vote, 3 are needed: 2 may fail"},
		{Standing{Seats: 5, Voting: 4}, true, 1, "4 of 5 seats vote, 3 are needed: 1 may fail"},
		{Standing{Seats: 5, Voting: 3}, true, 0, "3 of 5 seats vote, 3 are needed: none may fail"},
		{Standing{Seats: 5, Voting: 2}, false, 0, "2 of 5 seats vote, 3 are needed: no lock is granted"},
		{Standing{Seats: 1, Voting: 1}, true, 0, "1 of 1 seats vote, 1 are needed: none may fail"},
	} {
		if q, n, text := tt.s.Quorum(), tt.s.MayFail(), tt.s.String(); q != tt.quorum || n != tt.mayFail || text != tt.text {
			t.Errorf("%+v: got %v, %d, %q, want %v, %d, %q", tt.s, q, n, text, tt.quorum, tt.mayFail, tt.text)
		}
	}
}
