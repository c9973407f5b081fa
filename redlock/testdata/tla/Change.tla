--------------------------------- MODULE Change ---------------------------------
(***************************************************************************)
(* What one step of the membership record may change, and which waits keep *)
(* a lock exclusive meanwhile: demote, promote, reseat, let a seat leave,  *)
(* remove it, add one, raise and lower the ceiling (ttl, the longest TTL   *)
(* that may run), raise and lower the wait.                                *)
(*                                                                         *)
(* The chosen records are one chain. Step.tla shows that no record has two *)
(* chosen children, so a step is one action here: a quorum of the memories *)
(* that the last record lists go from it to the child. A memory that has   *)
(* accepted the child before it was chosen, and so has no vote already,    *)
(* is here one that still votes: that allows more, not less.               *)
(*                                                                         *)
(* Also allowing more than the code does: any proxy may begin a round      *)
(* under any chosen record, at any time; it reaches every memory, also one *)
(* that others know as replaced; a wait runs from the moment a record is   *)
(* chosen, where the code waits from when it has seen that; and a key ends *)
(* together with the attempt that set it, where a master keeps it a little *)
(* longer. Keys that no counted vote goes with are left out: they only     *)
(* keep others out.                                                        *)
(*                                                                         *)
(* Each CONSTANT named M... breaks one rule: TLC must find two holders.    *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, Sequences, TLC

CONSTANTS
  Seats,     \* all seats that there may ever be
  First,     \* the seats of the first record, all of them voters
  Memories,  \* how many memories a seat may show: 2 lets it be reseated
  Proxies, Nobody,
  MaxVersion,\* versions of the record, from 1
  Ops,       \* which changes there are: a subset of AllOps
  Movable,   \* the seats that change
  LongTTL,   \* ceiling and wait of the first record, in ticks; the short ceiling is 1
  Together,  \* TRUE: one step may change several things, FALSE: one
  MPromoteNow,  \* a learner gets its vote without the wait
  MRemoveNow,   \* a leaving seat is removed without the wait
  MDirect,      \* a newly listed memory is a voter at once
  MLearnerVotes,\* votes of learners count
  MWaitWithTTL, \* the wait is lowered together with the ceiling
  MWaitEarly,   \* the wait is lowered when the new, short wait has passed
  MOldTimer,    \* the timer of a memory that is listed again goes on from its first listing
  MOldRecord,   \* a vote counts though the memory shows another record
  MAboveCeiling \* a lock of the long TTL is granted under a record with the short ceiling

AllOps == {"demote", "promote", "reseat", "leave", "remove", "add", "raise", "lower", "lowerWait"}
ASSUME Ops \subseteq AllOps /\ First \subseteq Seats /\ Movable \subseteq Seats /\ LongTTL \in {1, 2, 3}

Mems == Seats \X (0..Memories - 1)

VARIABLES
  chain, \* the chosen records: seat s of a record is [st, k, since] with st absent, voter, learner or leaving; its memory is <<s, k>>
  age,   \* ticks since each of them was chosen
  rec,   \* the version that each memory shows; 0: none
  key,   \* whose key each memory holds
  att    \* each proxy's attempt or lease: the version of its round, and the ticks that are left of its TTL, which is the ceiling
vars == <<chain, age, rec, key, att>>

Absent == [st |-> "absent", k |-> 0, since |-> 0]
Idle == [st |-> "idle", v |-> 0, left |-> 0]
Last == chain[Len(chain)]
Count(R) == Cardinality({s \in Seats : R.seat[s].st # "absent"})
Quorum(R) == Count(R) \div 2 + 1
Listed(R) == {<<s, R.seat[s].k>> : s \in {x \in Seats : R.seat[x].st \in {"voter", "learner"}}}
Votes(R) == {<<s, R.seat[s].k>> : s \in {x \in Seats : R.seat[x].st = "voter" \/ (MLearnerVotes /\ R.seat[x].st = "learner")}}

Init ==
  /\ chain = <<[ttl |-> LongTTL, wait |-> LongTTL, ttlSince |-> 1,
                seat |-> [s \in Seats |-> IF s \in First THEN [st |-> "voter", k |-> 0, since |-> 1] ELSE Absent]]>>
  /\ age = <<0>>
  /\ rec = [m \in Mems |-> IF m[1] \in First /\ m[2] = 0 THEN 1 ELSE 0]
  /\ key = [m \in Mems |-> Nobody]
  /\ att = [p \in Proxies |-> Idle]
---------------------------------------------------------------------------------
(* The step from the last record to the next. *)

FirstListed(m) == CHOOSE v \in 1..Len(chain) : m \in Listed(chain[v]) /\ \A w \in 1..v - 1 : m \notin Listed(chain[w])
(* The wait that is in force when the step is proposed has passed since this seat was listed, or lost its vote. *)
Waited(s) == LET v == IF MOldTimer THEN FirstListed(<<s, Last.seat[s].k>>) ELSE Last.seat[s].since IN age[v] >= Last.wait

Become(s, n) ==
  LET x == Last.seat[s] IN
  {x} \cup
  ((IF "add" \in Ops /\ x.st = "absent" THEN {[st |-> IF MDirect THEN "voter" ELSE "learner", k |-> 0, since |-> n]} ELSE {}) \cup
   (IF "demote" \in Ops /\ x.st = "voter" THEN {[x EXCEPT !.st = "learner", !.since = n]} ELSE {}) \cup
   (IF "promote" \in Ops /\ x.st = "learner" /\ (MPromoteNow \/ Waited(s)) THEN {[x EXCEPT !.st = "voter"]} ELSE {}) \cup
   (IF "reseat" \in Ops /\ x.st \in {"voter", "learner"}
    THEN {[st |-> IF MDirect THEN "voter" ELSE "learner", k |-> j, since |-> n] : j \in (0..Memories - 1) \ {x.k}} ELSE {}) \cup
   (IF "leave" \in Ops /\ x.st \in {"voter", "learner"} THEN {[x EXCEPT !.st = "leaving", !.since = n]} ELSE {}) \cup
   (IF "remove" \in Ops /\ x.st = "leaving" /\ (MRemoveNow \/ Waited(s)) THEN {Absent} ELSE {}))

(* The wait is raised first, and the ceiling by a step after that: Ceiling.tla has what lies between. The ceiling is lowered alone; the wait follows when it has  *)
(* passed in full since then, or since it was raised.                                                                                                             *)
Times(n) ==
  LET x == [ttl |-> Last.ttl, wait |-> Last.wait, ttlSince |-> Last.ttlSince] IN
  {x} \cup
  (IF "raise" \in Ops /\ x.ttl < LongTTL
   THEN {IF x.wait < LongTTL THEN [x EXCEPT !.wait = LongTTL, !.ttlSince = n] ELSE [x EXCEPT !.ttl = LongTTL]} ELSE {}) \cup
  (IF "lower" \in Ops /\ x.ttl > 1
   THEN {[ttl |-> 1, ttlSince |-> n, wait |-> IF MWaitWithTTL THEN 1 ELSE x.wait]} ELSE {}) \cup
  (IF "lowerWait" \in Ops /\ x.wait > x.ttl /\ age[x.ttlSince] >= (IF MWaitEarly THEN x.ttl ELSE x.wait)
   THEN {[x EXCEPT !.wait = x.ttl]} ELSE {})

Changes(R) == Cardinality({s \in Seats : R.seat[s] # Last.seat[s]}) + (IF R.ttl = Last.ttl /\ R.wait = Last.wait THEN 0 ELSE 1)
Children ==
  LET n == Len(chain) + 1
      of(t, f) == [ttl |-> t.ttl, wait |-> t.wait, ttlSince |-> t.ttlSince,
                   seat |-> [s \in Seats |-> IF s \in Movable THEN f[s] ELSE Last.seat[s]]]
      may == [s \in Movable |-> Become(s, n)]
      all == {of(t, f) : t \in Times(n), f \in {g \in [Movable -> UNION {may[s] : s \in Movable}] : \A s \in Movable : g[s] \in may[s]}}
  IN {R \in all : Changes(R) > 0 /\ (Together \/ Changes(R) = 1)}

(* A quorum of the memories that the last record lists go on to the child. It lists enough memories for the step after it. *)
\* code: member.Situation.Next, member.CheckChild, survey.Masters.Step; trace: RecordTrace
Choose ==
  /\ Len(chain) < MaxVersion
  /\ \E R \in Children :
       /\ Cardinality(Listed(R)) >= Quorum(R)
       /\ \E S \in {X \in SUBSET Listed(Last) : Cardinality(X) = Quorum(Last)} :
            /\ chain' = Append(chain, R)
            /\ age' = Append(age, 0)
            /\ rec' = [m \in Mems |-> IF m \in S THEN Len(chain) + 1 ELSE rec[m]]
  /\ UNCHANGED <<key, att>>

(* A memory is shown a chosen record that is newer than its own, be it listed there or not. *)
\* code: survey.Masters.Teach, lua/learn.lua; trace: RecordTrace
Learn(m) ==
  /\ \E v \in rec[m] + 1..Len(chain) : rec' = [rec EXCEPT ![m] = v]
  /\ UNCHANGED <<chain, age, key, att>>
---------------------------------------------------------------------------------
(* Locks. *)

\* code: rounds.launch, ceiling.take, bounds.checkTTL
Begin(p) ==
  /\ att[p].st = "idle"
  /\ \E v \in 1..Len(chain) :
       /\ MOldRecord \/ \E m \in Votes(chain[v]) : rec[m] = v
       /\ att' = [att EXCEPT ![p] = [st |-> "asks", v |-> v, left |-> IF MAboveCeiling THEN LongTTL ELSE chain[v].ttl]]
  /\ UNCHANGED <<chain, age, rec, key>>

(* The memory sets the key, and the batch closes with exactly the record of the round. *)
\* code: guard.judgeMemory, lane.shows, Client.vote, quorum.Votes.Of; trace: Trace
Vote(p, m) ==
  LET R == chain[att[p].v]
      mine == {x \in Mems : key[x] = p} \cup {m}
  IN /\ att[p].st = "asks"
     /\ m \in Votes(R) /\ (MOldRecord \/ rec[m] = att[p].v)
     /\ key[m] = Nobody
     /\ key' = [key EXCEPT ![m] = p]
     /\ att' = IF Cardinality(mine) >= Quorum(R) THEN [att EXCEPT ![p].st = "holds"] ELSE att
     /\ UNCHANGED <<chain, age, rec>>

(* Time passes for all. An attempt ends with its TTL, whatever came of it. *)
\* code: none: time passes
Tick ==
  /\ (\E p \in Proxies : att[p].st # "idle") \/ (\E v \in 1..Len(chain) : age[v] < LongTTL)
  /\ age' = [v \in 1..Len(chain) |-> IF age[v] < LongTTL THEN age[v] + 1 ELSE age[v]]
  /\ att' = [p \in Proxies |-> IF att[p].left <= 1 THEN Idle ELSE [att[p] EXCEPT !.left = @ - 1]]
  /\ key' = [m \in Mems |-> IF key[m] # Nobody /\ att[key[m]].left <= 1 THEN Nobody ELSE key[m]]
  /\ UNCHANGED <<chain, rec>>

Next == Tick \/ Choose \/ (\E m \in Mems : Learn(m)) \/ (\E p \in Proxies : Begin(p) \/ \E m \in Mems : Vote(p, m))
Spec == Init /\ [][Next]_vars

MutualExclusion == Cardinality({p \in Proxies : att[p].st = "holds"}) <= 1
(* Proxies are alike, and so are seats that begin alike and may change alike. *)
Perms == Permutations(Proxies) \cup UNION {Permutations(S) : S \in {First \ Movable, First \cap Movable, (Seats \cap Movable) \ First}}
=================================================================================
