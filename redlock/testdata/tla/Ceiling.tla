--------------------------------- MODULE Ceiling ---------------------------------
(***************************************************************************)
(* The ceiling (ttl of a record) is the longest TTL that may run. It is    *)
(* raised when somebody asks for more, and lowered when nothing long runs. *)
(* A founder that does not know of a raise must not wait for the shorter   *)
(* ceiling. This is Found.tla with what sees to that.                      *)
(*                                                                         *)
(* Each founder writes notes on the masters: "I go by record i". A note    *)
(* counts if a quorum of the seats took it, all of them voters under i     *)
(* that show exactly i. The founder trusts i for T ticks from when it      *)
(* began to write. A founding that is proposed meanwhile waits for the     *)
(* ceiling of i and L, or for the wait of i; any other for LongTTL and L,  *)
(* which is the longest that may ever be needed.                           *)
(*                                                                         *)
(* A raise is two steps. The first raises the wait, to the new ceiling and *)
(* L: a founder that knows it need not know the second. The second raises  *)
(* the ceiling, when nobody trusts a record before the first: of a quorum  *)
(* of voters that show the last record each note is T and L old, but those *)
(* of founders of which one of them has a note under the first or a later  *)
(* one. L, because the founder may have proposed at the end of T, and      *)
(* others go on counting votes of the memories that it did not find.       *)
(*                                                                         *)
(* Whoever makes a learner a voter gives it notes before that: of each     *)
(* founder one of those that a quorum of voters has, as if it was written  *)
(* now, for another may be younger. A learner whose wait is over becomes a *)
(* voter also where fewer voters are read: it has a note of nobody then,   *)
(* written now.                                                            *)
(*                                                                         *)
(* A founder that proposes while it trusts has another name for its notes  *)
(* from then on: what it has proposed may be chosen although it trusts no  *)
(* more, and the old notes say so until they are gone.                     *)
(*                                                                         *)
(* Here, a learner's vote for locks counts when the wait is over, without  *)
(* a step that says so. What only another record depends on stops when the *)
(* last one is chosen. A memory that accepts a child shows it. Attempts,   *)
(* time, and what is allowed beyond what the code does: as in Found.tla    *)
(* and Change.tla.                                                         *)
(*                                                                         *)
(* Each CONSTANT named M... breaks one rule: TLC must find two holders.    *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, Sequences, TLC

CONSTANTS
  Seats, Proxies, Nobody,
  Founders,   \* the proxies that write notes and found; those that take locks, and propose steps, are others
  L,          \* ticks for which a proxy goes on counting votes of a memory that its address does not show any more
  T,          \* ticks for which a founder trusts its record
  MaxRecords, \* records that are chosen, in all
  MaxFounds,  \* foundings, in all
  Steps,      \* the strict steps: a subset of {"reseat", "promote", "raise", "lower", "lowerWait"}
  LongTTL,    \* the long ceiling, in ticks; the short one is 1, as the first record has it
  Kinds,      \* how the memory of an address becomes another: a subset of {"forgot", "other"}, as in Found.tla
  Switchable, \* the seats whose memory changes
  Twice,      \* those of them whose new memory forgets
  Reseated,   \* seats that have forgotten since a quorum took the note of each founder, and that a second record has reseated; the others may have
              \* its note of a tick before. {}: there is no such record, and no note
  AtOnce,     \* TRUE: the votes of a lease are given, and a note is taken, by a quorum at once
  MRaiseAtOnce,   \* the ceiling is raised without a look at notes
  MOneStep,       \* the wait is raised together with the ceiling, when all notes are under the record before that
  MRaiseShort,    \* the wait is raised to the new ceiling, without L
  MNoteAnyRecord, \* a note counts although the memory shows another record
  MNoteOfFew,     \* a note counts that one memory has taken
  MNoteGoneEarly, \* a note is gone after T, without L
  MLearnersNotes, \* notes are written to learners, and read there, too
  MNoteNotHanded, \* who becomes a voter is given no notes
  MNoteAsItWas,   \* … is given notes with the time when they were written, the oldest that one of the voters has
  MNoNobody,      \* … has no note of nobody where too few voters were read
  MTrustForEver,  \* a founder trusts its record however long ago it was confirmed
  MFoundLate,     \* … if it has found the loss within T, however late the founding
  MSameName       \* a founder that has proposed goes on writing notes under its old name

Quorum == Cardinality(Seats) \div 2 + 1
Quorums == {S \in SUBSET Seats : Cardinality(S) = Quorum}
Gone == 3
Mems == Seats \X {0, 1, 2}
Names == (Founders \X (0..MaxFounds)) \cup {Nobody} \* of notes

VARIABLES
  recs, \* the chosen records: lineage, its version there, ceiling, wait, at which version the ceiling was lowered last, or the wait raised; memory and vote of each seat
  age,  \* ticks since each was chosen, where something depends on that
  rec,  \* which record each memory shows; 0: none
  now,  \* for each seat: the memory that its address shows, how that came to be another than the old one, and how long ago
  att,  \* each proxy's attempt or lease: the record of its round, the ticks that are left of it, the memories that have given it votes, and those to which its key was copied
  note, \* each founder: the record that it goes by, how long ago it began to write its note, who took that, whether it saw the loss, which name it has
  mark, \* what each memory has under each name: the record of the note, and how old that is
  told  \* the learners that were given notes by somebody who makes them voters in the next record
vars == <<recs, age, rec, now, att, note, mark, told>>

Max(x, y) == IF x > y THEN x ELSE y
Idle == [r |-> 0, left |-> 0, on |-> {}, kept |-> {}]
Expired == T + L
Most == Max(LongTTL + L, Expired)
Vacant == [k |-> Gone, ok |-> FALSE, since |-> 0]
First == [lin |-> 0, v |-> 1, ttl |-> 1, wait |-> 1, ttlSince |-> 1, seat |-> [s \in Seats |-> [k |-> 0, ok |-> TRUE, since |-> 1]]]
NoNote(r, n) == [r |-> r, age |-> T, on |-> {}, saw |-> FALSE, n |-> n]
NoMark == [r |-> 0, age |-> Expired]
Second == [First EXCEPT !.v = 2, !.seat = [s \in Seats |-> IF s \in Reseated THEN [k |-> 1, ok |-> FALSE, since |-> 2] ELSE First.seat[s]]]
Init ==
  /\ now = [s \in Seats |-> IF s \in Reseated THEN [k |-> 1, how |-> "forgot", ago |-> L + 1] ELSE [k |-> 0, how |-> "", ago |-> 0]]
  /\ att = [p \in Proxies |-> Idle]
  /\ told = {}
  /\ IF Reseated = {}
     THEN /\ recs = <<First>> /\ age = <<Most>>
          /\ rec = [m \in Mems |-> IF m[2] = 0 THEN 1 ELSE 0]
          /\ note = [f \in Founders |-> NoNote(1, 0)]
          /\ mark = [n \in Names |-> [m \in Mems |-> NoMark]]
     ELSE /\ recs = <<First, Second>> /\ age = <<Most, 0>>
          /\ rec = [m \in Mems |-> IF m \in Seats \X {0} THEN (IF m[1] \in Reseated THEN 1 ELSE 2) ELSE IF m \in Reseated \X {1} THEN 2 ELSE 0]
          /\ \E W \in {S \X {0} : S \in Quorums}, old \in IF T > 1 THEN BOOLEAN ELSE {FALSE} :
               /\ note = [f \in Founders |-> [NoNote(1, 0) EXCEPT !.age = 0, !.on = W]]
               /\ mark = [n \in Names |-> [m \in Mems |-> IF n = Nobody \/ m[2] # 0 THEN NoMark ELSE IF n[2] # 0 THEN NoMark
                                                          ELSE IF m \in W THEN [r |-> 1, age |-> 0] ELSE IF old THEN [r |-> 1, age |-> 1] ELSE NoMark]]
---------------------------------------------------------------------------------
More == Len(recs) < MaxRecords
\* code: none: a master forgets, or a name comes to mean another one
Switch(s, how) ==
  /\ now[s].k = 0 /\ s \in Switchable /\ More
  /\ now' = [now EXCEPT ![s] = [k |-> 1, how |-> how, ago |-> IF how = "other" THEN 0 ELSE L + 1]]
  /\ UNCHANGED <<recs, age, rec, att, note, mark, told>>
\* code: none: a master forgets once more
Forget(s) ==
  /\ now[s].k = 1 /\ s \in Twice /\ More
  /\ now' = [now EXCEPT ![s].k = 2]
  /\ UNCHANGED <<recs, age, rec, att, note, mark, told>>

Listed(i) == {<<s, recs[i].seat[s].k>> : s \in {x \in Seats : recs[i].seat[x].k # Gone}}
Dead(m) == m[2] < now[m[1]].k /\ (m[2] = 1 \/ now[m[1]].how = "forgot")
Newer(i, j) == recs[i].lin > recs[j].lin \/ (recs[i].lin = recs[j].lin /\ recs[i].v > recs[j].v)
Older(i, m) == rec[m] # 0 /\ recs[rec[m]].lin = recs[i].lin /\ recs[rec[m]].v <= recs[i].v
Last(i) == \A j \in 1..Len(recs) : recs[j].lin = recs[i].lin => recs[j].v <= recs[i].v
Version(i, v) == CHOOSE c \in 1..Len(recs) : recs[c].lin = recs[i].lin /\ recs[c].v = v
Waited(i, v) == age[Version(i, v)] >= recs[i].wait
Votes(i) == {<<s, recs[i].seat[s].k>> : s \in {x \in Seats : LET y == recs[i].seat[x] IN y.ok \/ (y.k # Gone /\ Waited(i, y.since))}}
Voters(i) == {<<s, recs[i].seat[s].k>> : s \in {x \in Seats : recs[i].seat[x].k # Gone /\ (recs[i].seat[x].ok \/ MLearnersNotes)}}
Checked(m) == LET n == now[m[1]] IN n.k = m[2] \/ (m[2] = 0 /\ n.how = "other" /\ n.ago <= L)

Add(R, S, timed, by, copied) ==
  /\ More
  /\ recs' = Append(recs, R)
  /\ age' = Append(age, IF timed THEN 0 ELSE Most)
  /\ rec' = [m \in Mems |-> IF m \in S THEN Len(recs) + 1 ELSE rec[m]]
  /\ IF Len(recs) + 1 < MaxRecords THEN note' = [f \in Founders |-> IF f \in by THEN [note[f] EXCEPT !.n = @ + 1] ELSE note[f]] /\ UNCHANGED mark
     ELSE note' = [f \in Founders |-> NoNote(1, 0)] /\ mark' = [n \in Names |-> [m \in Mems |-> NoMark]]
  /\ told' = {}
  /\ att' = [p \in Proxies |-> IF att[p].left > 0 THEN [att[p] EXCEPT !.kept = @ \cup copied] ELSE att[p]]
  /\ UNCHANGED now

(* Nobody trusts a record from before the wait was raised. *)
Quiet(i) ==
  \E Q \in SUBSET {m \in Voters(i) : rec[m] = i /\ ~Dead(m)} :
    /\ Cardinality(Q) >= Quorum
    /\ \A n \in Names :
         \/ \A m \in Q : mark[n][m].r = 0 \/ (MNoteGoneEarly /\ mark[n][m].age >= T)
         \/ n # Nobody /\ \E m \in Q : LET r == mark[n][m].r IN IF r = 0 THEN FALSE ELSE recs[r].lin = recs[i].lin /\ recs[r].v >= recs[i].ttlSince

(* The note that a learner is given, of those that voters have under one name. *)
Given(all) ==
  LET live == {x \in all : x.r # 0}
      newest == {x \in live : \A y \in live : ~Newer(y.r, x.r)}
      oldest == {x \in live : \A y \in live : y.age <= x.age}
  IN IF live = {} THEN NoMark ELSE IF MNoteAsItWas THEN CHOOSE x \in oldest : TRUE ELSE [r |-> (CHOOSE x \in newest : TRUE).r, age |-> 0]
(* A learner of the last record is given what the voters V have, by somebody who is about to make it a voter. *)
\* code: coordinator.Coordinator.raiseFloors, member.Followers.Notes, survey.RaiseFloor, lua/admit_floor.lua
Tell(m) ==
  /\ More /\ m \notin told /\ ~Dead(m)
  /\ \E i \in 1..Len(recs) :
       /\ Last(i) /\ m \in Listed(i) /\ rec[m] = i /\ ~recs[i].seat[m[1]].ok
       /\ \E V \in SUBSET {x \in Voters(i) \ {m} : rec[x] = i /\ ~Dead(x)} :
            /\ IF Waited(i, recs[i].seat[m[1]].since) THEN V = {} \/ Cardinality(V) = Quorum ELSE Cardinality(V) = Quorum
            /\ mark' = IF MNoteNotHanded THEN mark
                       ELSE [n \in Names |-> [mark[n] EXCEPT ![m] = IF n = Nobody /\ V = {} THEN (IF MNoNobody THEN @ ELSE [r |-> 1, age |-> 0])
                                                                   ELSE IF V = {} \/ (MNoteAsItWas /\ @.r # 0) THEN @ ELSE Given({mark[n][x] : x \in V})]]
  /\ told' = told \cup {m}
  /\ UNCHANGED <<recs, age, rec, now, att, note>>

(* A step within a lineage, chosen by a quorum of the memories that the last record lists. Who becomes a voter before its wait is over has the key of each lock:   *)
(* see Copy.tla.                                                                                                                                                  *)
\* code: member.Situation.Next, member.Situation.planTimes, member.Followers.Behind, member.CheckChild; trace: RecordTrace
Strict ==
  /\ Len(recs) < MaxRecords
  /\ \E i \in {x \in 1..Len(recs) : Last(x)}, S \in Quorums :
       LET R == recs[i]
           child == [R EXCEPT !.v = @ + 1, !.seat = [s \in Seats |-> IF <<s, R.seat[s].k>> \in told THEN [R.seat[s] EXCEPT !.ok = TRUE] ELSE R.seat[s]]]
           by == {m \in Listed(i) : m[1] \in S /\ ~Dead(m) /\ (Older(i, m) \/ rec[m] = 0)}
           copied == {m \in told \cap Listed(i) : ~Waited(i, R.seat[m[1]].since)}
           needed == LongTTL + (IF MRaiseShort THEN 0 ELSE L)
       IN /\ Cardinality(by) = Quorum
          /\ \/ \E s \in Seats :
                  /\ "reseat" \in Steps /\ now[s].k # R.seat[s].k
                  /\ Add([child EXCEPT !.seat[s] = [k |-> now[s].k, ok |-> FALSE, since |-> R.v + 1]], by, TRUE, {}, copied)
             \/ "promote" \in Steps /\ child.seat # R.seat /\ Add(child, by, FALSE, {}, copied)
             \/ /\ "raise" \in Steps /\ R.ttl < LongTTL
                /\ \/ R.wait < needed /\ ~MOneStep /\ Add([child EXCEPT !.wait = needed, !.ttlSince = R.v + 1], by, "lowerWait" \in Steps, {}, copied)
                   \/ R.wait < needed /\ MOneStep /\ Quiet(i) = TRUE /\ Add([child EXCEPT !.wait = needed, !.ttl = LongTTL], by, FALSE, {}, copied)
                   \/ R.wait >= needed /\ (MRaiseAtOnce \/ Quiet(i)) = TRUE /\ Add([child EXCEPT !.ttl = LongTTL], by, FALSE, {}, copied)
             \/ "lower" \in Steps /\ R.ttl > 1 /\ Add([child EXCEPT !.ttl = 1, !.ttlSince = R.v + 1], by, "lowerWait" \in Steps, {}, copied)
             \/ "lowerWait" \in Steps /\ R.wait > R.ttl /\ Waited(i, R.ttlSince) /\ Add([child EXCEPT !.wait = R.ttl], by, FALSE, {}, copied)

(* What a founder proposes while it trusts its record waits for what that needs, and else for the longest. *)
Trusts(f) ==
  /\ IF MNoteOfFew THEN note[f].on # {} ELSE Cardinality(note[f].on) >= Quorum
  /\ (MTrustForEver \/ note[f].age < T \/ note[f].saw)
Lost(i) == Cardinality({m \in Listed(i) : now[m[1]].k = m[2]}) < Quorum

\* code: coordinator.Coordinator.found, member.Survey.Founding, member.Record.Needed; trace: RecordTrace
Found(f) ==
  /\ Len(recs) < MaxRecords /\ Cardinality({recs[i].lin : i \in 1..Len(recs)}) <= MaxFounds
  /\ \E B \in Quorums : \E S \in {x \in SUBSET Seats : B \subseteq x} :
       LET i == note[f].r
           found == {<<s, now[s].k>> : s \in S}
           by == {m \in found : m[1] \in B}
           R == recs[i]
           F == [lin |-> Len(recs), v |-> 1, ttl |-> R.ttl, ttlSince |-> 1,
                 wait |-> IF Trusts(f) THEN Max(R.ttl + L, R.wait) ELSE LongTTL + L,
                 seat |-> [s \in Seats |-> IF s \notin S THEN Vacant ELSE [k |-> now[s].k, ok |-> FALSE, since |-> 1]]]
       IN /\ \A m \in found : rec[m] = 0 \/ Older(i, m)
          /\ Cardinality(found \cap Listed(i)) < Quorum
          /\ Add(F, by, TRUE, IF Trusts(f) /\ ~MSameName THEN {f} ELSE {}, {})

(* A listed memory is told a newer record of its lineage, or its first one. *)
\* code: survey.Masters.Teach, lua/learn.lua; trace: RecordTrace
Learn(m) ==
  /\ \E i \in 1..Len(recs) :
       /\ m \in Listed(i)
       /\ IF rec[m] = 0 THEN TRUE ELSE recs[rec[m]].lin = recs[i].lin /\ recs[rec[m]].v < recs[i].v
       /\ rec' = [rec EXCEPT ![m] = i]
  /\ ~Dead(m)
  /\ UNCHANGED <<recs, age, now, att, note, mark, told>>

(* The memories W take a note: a new one, or the one that others have taken. *)
\* code: lane.heartbeat, lane.followArgs, fleet.follower, member.FollowerText, lua/follow.lua
Note(f, W) ==
  /\ More
  /\ W # {} /\ IF AtOnce THEN MNoteOfFew \/ Cardinality(W) = Quorum ELSE Cardinality(W) = 1
  /\ \A m \in W : Checked(m) /\ (rec[m] = note[f].r \/ (MNoteAnyRecord /\ rec[m] # 0))
  /\ \/ ~AtOnce /\ note[f].age < T /\ ~(W \subseteq note[f].on) /\ note' = [note EXCEPT ![f].on = @ \cup W]
     \/ (AtOnce \/ note[f].age > 0) /\ note' = [note EXCEPT ![f] = [@ EXCEPT !.age = 0, !.on = W, !.saw = FALSE]]
  /\ mark' = [mark EXCEPT ![<<f, note[f].n>>] = [m \in Mems |-> IF m \in W THEN [r |-> note[f].r, age |-> 0] ELSE @[m]]]
  /\ UNCHANGED <<recs, age, rec, now, att, told>>
(* A founder goes by the newest record that it finds. *)
\* code: coordinator.Coordinator.adopt, fleet.setRecord
Adopt(f) ==
  /\ More
  /\ \E s \in Seats :
       LET i == rec[<<s, now[s].k>>] IN
       /\ i # 0 /\ Newer(i, note[f].r)
       /\ note' = [note EXCEPT ![f] = NoNote(i, note[f].n)]
  /\ UNCHANGED <<recs, age, rec, now, att, mark, told>>
\* code: none: only MFoundLate has it
Observe(f) ==
  /\ MFoundLate /\ Trusts(f) /\ Lost(note[f].r) /\ ~note[f].saw
  /\ note' = [note EXCEPT ![f].saw = TRUE]
  /\ UNCHANGED <<recs, age, rec, now, att, mark, told>>
---------------------------------------------------------------------------------
Held(m) == \E p \in Proxies : m \in att[p].on \cup att[p].kept
\* code: guard.judgeMemory, guard.unconfirmed, ceiling.take; trace: Trace
Vote(p, i, W) ==
  /\ Cardinality(W) = (IF AtOnce THEN Quorum ELSE 1)
  /\ \A m \in W : rec[m] = i /\ Checked(m) /\ ~Held(m)
  /\ IF att[p].left = 0 THEN att' = [att EXCEPT ![p] = [r |-> i, left |-> recs[i].ttl, on |-> W, kept |-> {}]]
     ELSE ~AtOnce /\ att[p].r = i /\ att' = [att EXCEPT ![p].on = @ \cup W]
  /\ UNCHANGED <<recs, age, rec, now, note, mark, told>>

(* Time passes for all. An attempt ends with its TTL, whatever came of it. *)
\* code: none: time passes
Tick ==
  /\ age' = [i \in 1..Len(recs) |-> IF age[i] < Most THEN age[i] + 1 ELSE age[i]]
  /\ now' = [s \in Seats |-> IF now[s].k > 0 /\ now[s].ago <= L THEN [now[s] EXCEPT !.ago = @ + 1] ELSE now[s]]
  /\ att' = [p \in Proxies |-> IF att[p].left <= 1 THEN Idle ELSE [att[p] EXCEPT !.left = @ - 1]]
  /\ note' = [f \in Founders |-> LET n == note[f] IN
                IF n.age + 1 < T THEN [n EXCEPT !.age = @ + 1]
                ELSE IF n.saw \/ MTrustForEver THEN [n EXCEPT !.age = T] ELSE NoNote(n.r, n.n)]
  /\ mark' = [n \in Names |-> [m \in Mems |-> LET x == mark[n][m] IN IF x.age + 1 < Expired THEN [x EXCEPT !.age = @ + 1] ELSE NoMark]]
  /\ UNCHANGED <<recs, rec, told>>

Next ==
  \/ Tick \/ Strict
  \/ \E s \in Seats : (\E how \in Kinds : Switch(s, how)) \/ Forget(s)
  \/ \E m \in Mems : Learn(m) \/ Tell(m)
  \/ \E f \in Founders : Found(f) \/ Adopt(f) \/ Observe(f) \/ \E W \in SUBSET Voters(note[f].r) : Note(f, W)
  \/ \E p \in Proxies, i \in 1..Len(recs) : \E W \in SUBSET Votes(i) : Vote(p, i, W)
Spec == Init /\ [][Next]_vars

Holds(p) == Cardinality(att[p].on) >= Quorum
MutualExclusion == Cardinality({p \in Proxies : Holds(p)}) <= 1
Perms == UNION {Permutations(S) : S \in {Switchable \cap Twice, Switchable \ Twice, Seats \ Switchable, Proxies, Founders}}
==================================================================================
