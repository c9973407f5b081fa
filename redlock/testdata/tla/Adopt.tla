----------------------------------- MODULE Adopt -----------------------------------
(***************************************************************************)
(* Which record a proxy goes by, when masters are behind, have forgotten,  *)
(* or when one of them lies.                                               *)
(*                                                                         *)
(* A memory has settled on a record, and may have accepted a child of it.  *)
(* A proxy adopts a newer record when a quorum of the seats of its own     *)
(* record show it: they have settled on it, or on a child of it. No proxy  *)
(* adopts what is only accepted: a step from the record (Paxos, as in      *)
(* Step.tla) completes it. In that step a memory that has settled on       *)
(* a child counts as one that has accepted it with the highest ballot.     *)
(* Before a step the proxy tells the memories that are behind of its       *)
(* record, so that they can promise.                                       *)
(*                                                                         *)
(* A proxy that starts has no record. It joins the newest one that         *)
(* a quorum of the memories which that record lists show, and more than    *)
(* half of the masters that answer.                                        *)
(*                                                                         *)
(* The liar shows whatever it likes at each reading: records and accepted  *)
(* children that others have proposed, and forged ones, with any ballot.   *)
(*                                                                         *)
(* "chosen" counts honest memories only, and with Decides = FALSE what     *)
(* the liar accepts does not count for proxies either: of two quorums that *)
(* meet in the liar alone, each may choose a child.                        *)
(*                                                                         *)
(* A proxy asks all masters at once, and nothing arrives late: Step.tla    *)
(* has that. Left out: foundings; votes, whose rules are those of          *)
(* Members.tla; what a child may change; several fleets.                   *)
(*                                                                         *)
(* Each CONSTANT named M... breaks one rule: TLC must find that a record   *)
(* is adopted which was not chosen or which nobody has proposed, that two  *)
(* records have one version, or that nobody can go on.                     *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
  Seats,      \* machines, of which each is a seat
  First,      \* those that the first record lists
  Liar,       \* the machine that lies; {}: none
  Proxies, None,
  Self, Other, \* what a forged record says: it lists the liar alone, or what its parent lists
  MaxVersion, \* steps from the first record, in all
  MaxBallots, \* attempts at a step, in all
  MaxForgets, \* how often, in all, a machine forgets
  Silent,     \* how many masters may fail to answer
  Ops,        \* what proxies propose: "reseat", "add", "remove", or else "set"
  Starts,     \* TRUE: proxies start anew, without a record
  Decides,    \* TRUE: what the liar says that it accepts counts
  MOne,       \* one memory that has settled on a record is enough to adopt it
  MNewQuorum, \* … or a quorum of the memories that it lists itself
  MVersions,  \* a memory that has settled on any later version counts for it
  MAccepted,  \* … or one that has accepted it
  MAnyChild,  \* an accepted child is taken although it cannot have been chosen
  MOwnChild,  \* … or ignored although it can
  MNoPromise, \* a memory accepts a ballot lower than the one it has promised
  MBehind,    \* who is behind is not told of the record before a step from it
  MNoSettled, \* memories that have settled on a child do not count in the step that completes it
  MNewest     \* a proxy that starts takes the newest record, however few masters show it

VARIABLES
  inc,   \* how often each machine has forgotten: its memory
  rec,   \* the record that the memory has settled on
  acc,   \* the child of it that it has accepted, and the ballot
  prom,  \* the ballot that it has promised
  known, \* the record that each proxy goes by
  prop,  \* its step: ballot, child, who has accepted it
  bal,   \* the last ballot
  chosen \* the records that a quorum of honest memories has accepted with one ballot
vars == <<inc, rec, acc, prom, known, prop, bal, chosen>>

Honest == Seats \ Liar
Gone == 9 \* the memory of a seat that is not listed
NoAcc == [b |-> 0, c |-> None]
NoProp == [b |-> 0, c |-> None, got |-> {}]
Top == MaxBallots + 1 \* beyond all ballots

(* A record is the sequence of what was changed since the first one. So two records are equal only if all before them are, as with digests. *)
Parent(R) == SubSeq(R, 1, Len(R) - 1)
IsChild(c, R) == c # None /\ Len(c) = Len(R) + 1 /\ Parent(c) = R
Version(R) == IF R = None THEN 0 ELSE Len(R) + 1
RECURSIVE Lists(_)
Lists(R) == \* the memory of each seat
  IF R = <<>> THEN [s \in Seats |-> IF s \in First THEN 0 ELSE Gone]
  ELSE LET e == R[Len(R)] L == Lists(Parent(R)) IN
       CASE e[1] \in Seats -> [L EXCEPT ![e[1]] = e[2]]
         [] e[1] = Self -> [s \in Seats |-> IF s \in Liar THEN 0 ELSE Gone]
         [] OTHER -> L
SeatsOf(R) == LET L == Lists(R) IN {s \in Seats : L[s] # Gone}
Quorum(R) == Cardinality(SeatsOf(R)) \div 2 + 1
Listed(R) == LET L == Lists(R) IN {s \in Seats : L[s] = inc[s]} \* machines with the memories that it lists
Forgeries(R) == {Append(R, <<x, 0>>) : x \in {y \in {Self, Other} : Liar # {}}}

Init ==
  /\ inc = [m \in Seats |-> 0]
  /\ rec = [m \in Seats |-> IF m \in First THEN <<>> ELSE None]
  /\ acc = [m \in Seats |-> NoAcc]
  /\ prom = [m \in Seats |-> 0]
  /\ known = [p \in Proxies |-> <<>>]
  /\ prop = [p \in Proxies |-> NoProp]
  /\ bal = 0
  /\ chosen = {<<>>}
---------------------------------------------------------------------------------
(* Which record a proxy adopts. *)

(* The liar shows lie. *)
Shows(m, R, lie) ==
  IF m \in Liar THEN lie = R \/ IsChild(lie, R)
  ELSE rec[m] # None /\ \/ rec[m] = R
                        \/ IsChild(rec[m], R)
                        \/ MVersions /\ Len(rec[m]) > Len(R)
                        \/ MAccepted /\ acc[m].c = R
Showing(S, R, lie) == Cardinality({m \in S : Shows(m, R, lie)})
(* All that somebody may show. *)
Records ==
  LET settled == {rec[m] : m \in {x \in Honest : rec[x] # None}}
      all == settled \cup {known[p] : p \in {x \in Proxies : known[x] # None}} \cup {Parent(R) : R \in {x \in settled : x # <<>>}} \cup (IF MAccepted THEN {acc[m].c : m \in Honest} \ {None} ELSE {})
      lies == UNION {Forgeries(R) : R \in all}
  IN all \cup lies \cup UNION {Forgeries(R) : R \in lies}

GoBy(p, R) ==
  /\ known' = [known EXCEPT ![p] = R]
  /\ prop' = [prop EXCEPT ![p] = NoProp]
  /\ UNCHANGED <<inc, rec, acc, prom, bal, chosen>>

Adoptable(p, R) ==
  /\ Len(R) > Len(known[p])
  /\ CASE MOne -> \E m \in SeatsOf(known[p]) : Shows(m, R, R)
       [] MNewQuorum -> Showing(Listed(R), R, R) >= Quorum(R)
       [] OTHER -> Showing(SeatsOf(known[p]), R, R) >= Quorum(known[p])
\* code: member.Survey.Successor, member.Record.Follows, coordinator.Coordinator.follow
Adopt(p) == known[p] # None /\ \E R \in Records : Adoptable(p, R) /\ GoBy(p, R)

(* The newest record that a proxy which starts may join. S answer. *)
Joinable(S, lie) ==
  LET can == {R \in Records : /\ Showing(S \cap Listed(R), R, lie) >= Quorum(R)
                              /\ MNewest \/ 2 * Showing(S, R, lie) > Cardinality(S)}
  IN {R \in can : \A x \in can : Len(x) <= Len(R)}
\* code: coordinator.Coordinator.join, member.Survey.Best, member.Survey.Prevailing
Join(p) ==
  /\ known[p] = None
  /\ \E S \in {x \in SUBSET Seats : Cardinality(Seats \ x) <= Silent}, lie \in {None} \cup {R \in Records : Liar # {}} :
       \E R \in Joinable(S, lie) : GoBy(p, R)
\* code: Open, Client.newCoordinator
Start(p) == Starts /\ known[p] # None /\ GoBy(p, None)

Behind(R) == {m \in Listed(R) \ Liar : Version(rec[m]) < Version(R)}
\* code: member.Survey.Untaught, survey.Masters.TeachUntaught, lua/learn.lua; trace: RecordTrace
Learn(p, m) ==
  /\ known[p] # None /\ m \in Behind(known[p])
  /\ rec' = [rec EXCEPT ![m] = known[p]]
  /\ acc' = [acc EXCEPT ![m] = NoAcc]
  /\ prom' = [prom EXCEPT ![m] = 0]
  /\ UNCHANGED <<inc, known, prop, bal, chosen>>
---------------------------------------------------------------------------------
(* A step: Paxos among the memories that the record lists. *)

Wishes(p, R, S) ==
  LET L == Lists(R) IN
  {Append(R, <<s, inc[s]>>) : s \in {x \in S : L[x] # inc[x] /\ (IF L[x] = Gone THEN "add" ELSE "reseat") \in Ops}}
  \cup {Append(R, <<s, Gone>>) : s \in {x \in SeatsOf(R) : "remove" \in Ops}}
  \cup {Append(R, <<p, 0>>) : x \in Ops \cap {"set"}}
(* S answer. Honest memories that show the record, or are told of it, and those that have settled on a child of it. *)
At(R, S) == {m \in Listed(R) \cap S \cap Honest : rec[m] = R} \cup IF MBehind THEN {} ELSE Behind(R) \cap S
On(R, S) == IF MNoSettled THEN {} ELSE {m \in Listed(R) \cap S \cap Honest : IsChild(rec[m], R)}
(* Children of it that the liar may have heard of. *)
Children(R) == {c \in {acc[m].c : m \in Honest} \cup {rec[m] : m \in Honest} \cup {prop[p].c : p \in Proxies} : IsChild(c, R)}

\* code: survey.Masters.Step, member.Survey.Acceptors, member.ChildToPropose, lua/prepare.lua; trace: RecordTrace
Prepare(p) ==
  LET R == known[p] IN
  /\ R # None /\ bal < MaxBallots /\ Len(R) < MaxVersion
  /\ \E S \in {x \in SUBSET Seats : Cardinality(SeatsOf(R) \ x) <= Silent} :
     LET at == At(R, S)
         on == On(R, S)
         lying == S \cap Listed(R) \cap Liar
         by == at \cup on \cup lying
         silent == Cardinality(SeatsOf(R)) - Cardinality(by)
     IN
     /\ Cardinality(by) >= Quorum(R)
     /\ \E lie \in {NoAcc} \cup IF lying = {} THEN {} ELSE [b : 1..Top, c : Forgeries(R) \cup Children(R)] :
        LET reply == [m \in by |-> IF m \in on THEN [b |-> Top, c |-> rec[m]] ELSE IF m \in lying THEN lie
                                   ELSE IF rec[m] = R THEN acc[m] ELSE NoAcc]
            can == {reply[m] : m \in {x \in by : /\ reply[x].c # None /\ ~MOwnChild
                                                  /\ \/ MAnyChild
                                                     \/ Cardinality({y \in by : reply[y].c = reply[x].c}) + silent >= Quorum(R)}}
            take == IF can = {} THEN Wishes(p, R, S) ELSE {x.c : x \in {y \in can : \A z \in can : z.b <= y.b}}
        IN \E c \in take : prop' = [prop EXCEPT ![p] = [b |-> bal + 1, c |-> c, got |-> {}]]
     /\ rec' = [m \in Seats |-> IF m \in at THEN R ELSE rec[m]]
     /\ acc' = [m \in Seats |-> IF m \in at /\ rec[m] # R THEN NoAcc ELSE acc[m]]
     /\ prom' = [m \in Seats |-> IF m \in at THEN bal + 1 ELSE prom[m]]
  /\ bal' = bal + 1
  /\ UNCHANGED <<inc, known, chosen>>

\* code: survey.Masters.Step, lua/accept.lua, coordinator.Coordinator.adopt; trace: RecordTrace
Accept(p, m) ==
  LET R == known[p]
      c == prop[p].c
      b == prop[p].b
      got == prop[p].got \cup {m}
  IN
  /\ c # None /\ m \in Listed(R) \ prop[p].got
  /\ \/ m \in Liar /\ Decides /\ UNCHANGED <<acc, prom>>
     \/ m \in Honest /\ rec[m] = c /\ ~MNoSettled /\ UNCHANGED <<acc, prom>>
     \/ /\ m \in Honest /\ rec[m] = R /\ (MNoPromise \/ prom[m] <= b)
        /\ acc' = [acc EXCEPT ![m] = [b |-> b, c |-> c]]
        /\ prom' = [prom EXCEPT ![m] = b]
  /\ chosen' = IF Cardinality(got \ Liar) >= Quorum(R) THEN chosen \cup {c} ELSE chosen
  /\ IF Cardinality(got) >= Quorum(R)
     THEN known' = [known EXCEPT ![p] = c] /\ prop' = [prop EXCEPT ![p] = NoProp]
     ELSE prop' = [prop EXCEPT ![p].got = got] /\ UNCHANGED known
  /\ UNCHANGED <<inc, rec, bal>>
---------------------------------------------------------------------------------
Newest == CHOOSE R \in chosen : \A x \in chosen : Len(x) <= Len(R)
RECURSIVE Sum(_)
Sum(S) == IF S = {} THEN 0 ELSE LET m == CHOOSE x \in S : TRUE IN inc[m] + Sum(S \ {m})
(* Those that live are still a quorum of the newest record. *)
\* code: none: a master restarts without its data, or is flushed
Forget(m) ==
  /\ m \in Honest /\ Sum(Seats) < MaxForgets
  /\ rec[m] # None
  /\ Cardinality(Listed(Newest) \ {m}) >= Quorum(Newest)
  /\ inc' = [inc EXCEPT ![m] = @ + 1]
  /\ rec' = [rec EXCEPT ![m] = None]
  /\ acc' = [acc EXCEPT ![m] = NoAcc]
  /\ prom' = [prom EXCEPT ![m] = 0]
  /\ UNCHANGED <<known, prop, bal, chosen>>

Next ==
  \/ \E m \in Seats : Forget(m)
  \/ \E p \in Proxies : Adopt(p) \/ Join(p) \/ Start(p) \/ Prepare(p) \/ \E m \in Seats : Learn(p, m) \/ Accept(p, m)
Spec == Init /\ [][Next]_vars

OneRecord == \A x, y \in (chosen \cup {known[p] : p \in Proxies}) \ {None} : Len(x) = Len(y) => x = y
AdoptedIsChosen == {known[p] : p \in Proxies} \cup {rec[m] : m \in Honest} \subseteq chosen \cup {None}
Real == \A R \in chosen \cup {known[p] : p \in Proxies} : R = None \/ \A i \in 1..Len(R) : R[i][1] \notin {Self, Other}

(* With all masters reached and none that lies, somebody can go on, unless all are of one mind. *)
CanStep(R) ==
  /\ Cardinality(At(R, Seats) \cup On(R, Seats)) >= Quorum(R)
  /\ \/ On(R, Seats) # {}
     \/ \E m \in At(R, Seats) : acc[m].c # None
     \/ SeatsOf(R) \ Listed(R) # {}
NotStuck ==
  \/ \E p \in Proxies : \/ IF known[p] = None THEN Joinable(Seats, None) # {}
                           ELSE \/ Behind(known[p]) # {}
                                \/ CanStep(known[p])
                                \/ \E R \in Records : Adoptable(p, R)
  \/ \E R \in chosen : (\A p \in Proxies : known[p] = R) /\ \A m \in Listed(R) : rec[m] = R
Perms == UNION {Permutations(S) : S \in {First \ Liar, (Seats \ First) \ Liar, Proxies}}
====================================================================================
