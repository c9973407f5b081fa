--------------------------------- MODULE Members ---------------------------------
(***************************************************************************)
(* How the masters agree on the membership record, and whose votes count   *)
(* meanwhile: a vote counts only where the memory shows exactly the record *)
(* of the round, has accepted no child of it, and is the voter that the    *)
(* record lists for its seat.                                              *)
(*                                                                         *)
(* Three seats a, b, c. Behind the address of seat c stands machine c or,  *)
(* for a proxy that has followed a move of the name, machine d. A memory   *)
(* is <<machine, k>>; amnesia makes k + 1. A record lists one memory for   *)
(* each seat: a voter, or a learner (ok = FALSE). A memory holds one       *)
(* record that is known to be chosen (rec), and at most one child of it    *)
(* that it has accepted (acc). A child is chosen when a quorum of the      *)
(* memories that the PARENT lists have accepted it.                        *)
(*                                                                         *)
(* A founding: where listed memories cannot be a quorum any more, a proxy  *)
(* lists what it finds at the addresses, all of them learners, and those   *)
(* themselves choose it. That trusts addresses, so it is modelled with     *)
(* Movers = {}.                                                            *)
(*                                                                         *)
(* A bootstrap: where the first record is of learners, an operator says    *)
(* that no lock is held, and a child gives votes without the wait: to all, *)
(* or to a quorum of seats. It may follow other steps from the first       *)
(* record: as long as nobody votes, and those that are learners since the  *)
(* first record leave no quorum to the others, nobody has ever been        *)
(* granted anything. Once somebody votes, a seat that does not is corrected*)
(* as any other: its new memory is a learner first.                        *)
(*                                                                         *)
(* Here a memory accepts one child of each parent; Step.tla has the        *)
(* ballots that get by where two children split the votes.                 *)
(*                                                                         *)
(* Time: a Tick is one max_ttl, which is one wait. A round and its lease   *)
(* live within one interval, so nothing ticks once a round has begun: a    *)
(* wait that ends while a lease is valid began before its round did; here  *)
(* it ends even earlier. A wait runs from the moment somebody sees the     *)
(* listing chosen, through any proxy: a proxy's own timer and the stamps   *)
(* on the masters begin no sooner. Keys that no counted vote goes with are *)
(* left out: they only keep others out.                                    *)
(*                                                                         *)
(* Each CONSTANT named M... breaks one rule: TLC must find two holders, or *)
(* two chosen children of one record.                                      *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
  a, b, c, d, \* machines; the first three are also the seats
  Proxies, Nobody,
  MaxVersion, \* versions of the record, from 1
  MaxForgets, \* how often, in all, a machine forgets
  Movers,     \* the proxies that follow the move of seat c's name, each at its own time; {}: it does not move
  Founds,     \* TRUE: proxies found
  New,        \* TRUE: the first record is of learners
  Boots,      \* TRUE: there are bootstraps
  Anyway,     \* TRUE: … which may leave seats out
  MNoRecord,  \* the record that the memory shows is not compared
  MNoMemory,  \* … nor whether it is the memory that the record lists
  MAccepted,  \* a vote beside an accepted child counts
  MEarly,     \* the batch is judged by what the memory showed before the command
  MMinority,  \* a child is chosen by one memory
  MCountNew,  \* the memory that a child lists is counted among those that choose it
  MTwoAccept, \* a memory accepts two children of one record
  MNoWait,    \* a learner gets its vote without the wait
  MEarlyTimer,\* the wait runs from the proposal
  MDirect,    \* a newly listed memory is a voter at once
  MBootAny    \* a bootstrap does not look whether anybody can have voted

Seats == {a, b, c}
Moves == Movers # {}
Machines == IF Moves THEN {a, b, c, d} ELSE {a, b, c}
Quorum == 2
Enough == IF MMinority THEN 1 ELSE Quorum \* to choose a child

VARIABLES
  key,   \* whose key each machine holds
  inc,   \* how often it has forgotten
  rec, acc,
  at,    \* the machine that a proxy finds behind the address of seat c
  known, \* the record that a proxy goes by: it knows that it was chosen
  wait,  \* listings whose wait runs, and those whose wait is over
  hist,  \* who has ever accepted which child of which record
  att    \* each proxy's attempt or lease
vars == <<key, inc, rec, acc, at, known, wait, hist, att>>

(* A seat of a record: the memory, whether it has a vote, and the version that listed it. *)
First(ok, v) == [v |-> v, seat |-> [s \in Seats |-> [n |-> <<s, 0>>, ok |-> ok, since |-> v]]]
NoRec == First(FALSE, 0)
Idle == [st |-> "idle", r |-> NoRec, early |-> {}, votes |-> {}]
Mem(m) == <<m, inc[m]>>
Behind(p, s) == IF s = c THEN at[p] ELSE s
SeatOf(m) == IF m = d THEN c ELSE m
Reached(p) == {Behind(p, s) : s \in Seats}
Listed(R) == {R.seat[s].n : s \in Seats}
Learners(R) == {<<R.seat[s].n, R.seat[s].since>> : s \in {x \in Seats : ~R.seat[x].ok}}
Forgets == inc[a] + inc[b] + inc[c] + IF Moves THEN inc[d] ELSE 0

Init ==
  /\ key = [m \in Machines |-> Nobody]
  /\ inc = [m \in Machines |-> 0]
  /\ rec = [m \in Machines |-> IF m = d THEN NoRec ELSE First(~New, 1)]
  /\ acc = [m \in Machines |-> NoRec]
  /\ at = [p \in Proxies |-> c]
  /\ known = [p \in Proxies |-> First(~New, 1)]
  /\ wait = [run |-> IF New THEN Learners(First(FALSE, 1)) ELSE {}, over |-> {}]
  /\ hist = {}
  /\ att = [p \in Proxies |-> Idle]
---------------------------------------------------------------------------------
(* What happens to machines, names and time. *)

\* code: none: a name comes to mean another machine
Move(p) ==
  /\ p \in Movers /\ at[p] = c
  /\ at' = [at EXCEPT ![p] = d]
  /\ UNCHANGED <<key, inc, rec, acc, known, wait, hist, att>>

\* code: none: a master restarts without its data, or is flushed
Forget(m) ==
  /\ Forgets < MaxForgets
  /\ key' = [key EXCEPT ![m] = Nobody]
  /\ inc' = [inc EXCEPT ![m] = @ + 1]
  /\ rec' = [rec EXCEPT ![m] = NoRec]
  /\ acc' = [acc EXCEPT ![m] = NoRec]
  /\ UNCHANGED <<at, known, wait, hist, att>>

\* code: none: time passes
Tick ==
  /\ wait.run # {} /\ \A p \in Proxies : att[p].st = "idle"
  /\ wait' = [run |-> {}, over |-> wait.run \cup wait.over]
  /\ UNCHANGED <<key, inc, rec, acc, at, known, hist, att>>
---------------------------------------------------------------------------------
(* Steps of the record. *)

Waiting(R) == [wait EXCEPT !.run = @ \cup (Learners(R) \ wait.over)]
Waited(x) == MNoWait \/ <<x.n, x.since>> \in wait.over
Up(p) == known[p].v + 1

Reseat(p) ==
  {[known[p] EXCEPT !.v = Up(p), !.seat[s] = [n |-> Mem(Behind(p, s)), ok |-> MDirect, since |-> Up(p)]] :
     s \in {x \in Seats : Mem(Behind(p, x)) # known[p].seat[x].n}}
(* One learner whose wait is over, or, behind a founding, all of them. *)
Promote(p) ==
  LET S == {x \in Seats : ~known[p].seat[x].ok /\ Waited(known[p].seat[x])} IN
  {[v |-> Up(p), seat |-> [s \in Seats |-> IF s \in X THEN [known[p].seat[s] EXCEPT !.ok = TRUE] ELSE known[p].seat[s]]] :
     X \in {Y \in SUBSET S : Y # {} /\ (Cardinality(Y) = 1 \/ (Founds /\ Y = S))}}
Found(p) ==
  IF Founds /\ Cardinality({s \in Seats : Mem(Behind(p, s)) = known[p].seat[s].n}) < Quorum
  THEN {[v |-> Up(p), seat |-> [s \in Seats |-> [n |-> Mem(Behind(p, s)), ok |-> FALSE, since |-> Up(p)]]]} ELSE {}
IsFound(R) == Founds /\ \A s \in Seats : ~R.seat[s].ok
(* A quorum of the learners, or all of them, without the wait. *)
Never(R) == {s \in Seats : ~R.seat[s].ok /\ R.seat[s].since = 1}
IsNew(R) == MBootAny \/ ((\A s \in Seats : ~R.seat[s].ok) /\ Cardinality(Never(R)) + Quorum > Cardinality(Seats))
Boot(p) ==
  IF Boots /\ IsNew(known[p])
  THEN {[v |-> Up(p), seat |-> [s \in Seats |-> IF s \in X THEN [known[p].seat[s] EXCEPT !.ok = TRUE] ELSE known[p].seat[s]]] :
          X \in {Y \in SUBSET Seats : Y = Seats \/ (Anyway /\ Cardinality(Y) >= Quorum)}} ELSE {}
(* What others have proposed. *)
Accepted(p) == {acc[x] : x \in {y \in Reached(p) : rec[y] = known[p] /\ acc[y] # NoRec}}

(* A memory that shows no record may accept, too: it is told the parent with the child. *)
\* code: member.Situation.Next, member.Survey.Founding, admin.Bootstrap, member.ChildToPropose, lua/accept.lua; trace: RecordTrace
Accept(p, m) ==
  /\ m \in Reached(p) /\ rec[m] \in {known[p], NoRec} /\ known[p].v < MaxVersion
  /\ \E ch \in Reseat(p) \cup Promote(p) \cup Found(p) \cup Boot(p) \cup Accepted(p) :
       /\ Mem(m) \in Listed(known[p]) \/ (MCountNew /\ Mem(m) \in Listed(ch)) \/ (IsFound(ch) /\ Mem(m) \in Listed(ch))
       /\ acc[m] = NoRec \/ (MTwoAccept /\ acc[m] # ch)
       /\ acc' = [acc EXCEPT ![m] = ch]
       /\ rec' = [rec EXCEPT ![m] = known[p]]
       /\ hist' = hist \cup {<<Mem(m), known[p], ch>>}
       /\ wait' = IF MEarlyTimer THEN Waiting(ch) ELSE wait
  /\ UNCHANGED <<key, inc, at, known, att>>

(* How many of the memories that choose a child of R have accepted ch. *)
Count(R, ch) ==
  LET by(x) == {s \in Seats : <<x.seat[s].n, R, ch>> \in hist}
  IN Cardinality(IF MCountNew THEN by(R) \cup by(ch) ELSE IF IsFound(ch) THEN by(ch) ELSE by(R))

(* A proxy that sees a child chosen tells the memories that have accepted it at once. *)
\* code: survey.Masters.Step, survey.Masters.Teach, coordinator.Coordinator.adopt; trace: RecordTrace
Choose(p) ==
  \E h \in hist :
    /\ h[2] = known[p] /\ Count(known[p], h[3]) >= Enough
    /\ known' = [known EXCEPT ![p] = h[3]]
    /\ wait' = Waiting(h[3])
    /\ LET S == {m \in Reached(p) : rec[m] = known[p] /\ acc[m] = h[3]} IN
       /\ rec' = [m \in Machines |-> IF m \in S THEN h[3] ELSE rec[m]]
       /\ acc' = [m \in Machines |-> IF m \in S THEN NoRec ELSE acc[m]]
    /\ UNCHANGED <<key, inc, at, hist, att>>

(* A proxy tells a memory a newer record, or is told one, here by a single memory: Adopt.tla has the rule, which asks for more. *)
\* code: survey.Masters.Teach, lua/learn.lua; trace: RecordTrace
Learn(p, m) ==
  /\ m \in Reached(p) /\ rec[m].v < known[p].v
  /\ rec' = [rec EXCEPT ![m] = known[p]]
  /\ acc' = [acc EXCEPT ![m] = NoRec]
  /\ UNCHANGED <<key, inc, at, known, wait, hist, att>>
\* code: member.Survey.Successor, coordinator.Coordinator.follow, coordinator.Coordinator.adopt
Adopt(p) ==
  \E m \in Reached(p) :
    /\ rec[m].v > known[p].v
    /\ known' = [known EXCEPT ![p] = rec[m]]
    /\ UNCHANGED <<key, inc, rec, acc, at, wait, hist, att>>
---------------------------------------------------------------------------------
(* Locks. *)

Good(m, R) ==
  /\ MNoRecord \/ (rec[m] = R /\ (MAccepted \/ acc[m] = NoRec))
  /\ MNoMemory \/ R.seat[SeatOf(m)].n = Mem(m)
  /\ R.seat[SeatOf(m)].ok

\* code: rounds.launch, newView
Begin(p) ==
  /\ att[p].st = "idle" /\ Cardinality({s \in Seats : known[p].seat[s].ok}) >= Quorum
  /\ att' = [att EXCEPT ![p] = [st |-> "asks", r |-> known[p], votes |-> {},
                                 early |-> IF MEarly THEN {m \in Reached(p) : Good(m, known[p])} ELSE {}]]
  /\ UNCHANGED <<key, inc, rec, acc, at, known, wait, hist>>

(* The memory sets the key, and the batch closes behind it. *)
\* code: guard.judgeMemory, lane.shows, member.ReadTrailer, Client.vote; trace: Trace
Vote(p, m) ==
  LET votes == att[p].votes \cup {SeatOf(m)} IN
  /\ att[p].st = "asks" /\ m \in Reached(p) /\ SeatOf(m) \notin att[p].votes /\ key[m] = Nobody
  /\ IF MEarly THEN m \in att[p].early ELSE Good(m, att[p].r)
  /\ key' = [key EXCEPT ![m] = p]
  /\ att' = [att EXCEPT ![p] = IF Cardinality(votes) >= Quorum THEN [Idle EXCEPT !.st = "holds"] ELSE [@ EXCEPT !.votes = votes]]
  /\ UNCHANGED <<inc, rec, acc, at, known, wait, hist>>

Next ==
  \/ Tick \/ \E m \in Machines : Forget(m)
  \/ \E p \in Proxies : Move(p) \/ Choose(p) \/ Adopt(p) \/ Begin(p) \/ \E m \in Machines : Accept(p, m) \/ Learn(p, m) \/ Vote(p, m)
Spec == Init /\ [][Next]_vars

MutualExclusion == Cardinality({p \in Proxies : att[p].st = "holds"}) <= 1
(* Not with Founds: two proxies may found, and no key has been taken under either yet. *)
OneChild ==
  LET chosen == {<<h[2], h[3]>> : h \in {x \in hist : Count(x[2], x[3]) >= Enough}}
  IN \A x, y \in chosen : x[1] = y[1] => x[2] = y[2]
Perms == Permutations(Movers) \cup Permutations(Proxies \ Movers) \cup (IF Moves THEN Permutations({a, b}) ELSE Permutations({a, b, c}))
===================================================================================
