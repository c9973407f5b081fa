---------------------------------- MODULE Copy ----------------------------------
(***************************************************************************)
(* Recovery by copying: a memory m that has forgotten is listed anew as a  *)
(* learner. It becomes a voter without a wait when it has been given what  *)
(* a quorum of voters holds.                                               *)
(*                                                                         *)
(* A copy of m is made under a record R that lists m as a learner. Its     *)
(* sources are the voters of R: Q of them, or more. Each reading of a      *)
(* source is one command for one key; it counts where the same reply shows *)
(* the memory that R lists, R or a later record as settled (no vote under  *)
(* an earlier record can count there any more), and nothing that tells     *)
(* that the memory has failed.                                             *)
(* 1. Q sources name their keys. Of n sources at least n - Q + 1 deny a    *)
(* lease that is valid, so of any Q sources one does, and names its key.   *)
(* 2. Key by key: m is read, then the sources. The readings decide when    *)
(* they are those of all sources that have not failed, n of them, and n >= *)
(* Q. Let least be n - Q + 1. Where fewer than least sources hold          *)
(* anything, what m holds is deleted there. Else m gets the value that     *)
(* most of them hold, whatever m holds by then, with the latest of the     *)
(* ends of that value (and of the sentinel). If least sources or more hold *)
(* something else, the key is read again, or m gets a value that nobody    *)
(* owns, the sentinel, with the latest of all ends. Readers share a lock:  *)
(* m gets the readers of all sources, and may keep others. A HOLD gives a  *)
(* reader another token: to the copy that is one reader more.              *)
(* 3. After the last key all that m holds is read once more, and decided   *)
(* likewise.                                                               *)
(* 4. m becomes a voter by a step from the newest record, if each key was  *)
(* decided, m is a learner of the newest record, and Q sources are still   *)
(* voters of it and have not failed. m takes over the highest fence that Q *)
(* of them have accepted.                                                  *)
(* m is written to, or deleted from, only where it shows, in the same      *)
(* command, R or a later record, and that record lists it as a learner: so *)
(* a slow copier does no harm when another one has made m a voter.         *)
(*                                                                         *)
(* A source that fails is left out: nothing is read of it any more. What   *)
(* was decided stays, also where its readings counted, because they were   *)
(* right: a source denies a lease until it fails, and what is no lease     *)
(* when the sources have left the earlier records becomes none. So least   *)
(* belongs to the readings of one decision. Here any Q readings or more    *)
(* decide, key by key: that is a source that is left out for good, and     *)
(* allows more.                                                            *)
(*                                                                         *)
(* That takes for granted that the reply to a reading shows whether the    *)
(* source had failed by then. A failure that is found otherwise (Hides:    *)
(* keys are evicted) may have spoilt readings that counted. Then the copy  *)
(* is of no use, also if that source was left out since; and a second copy *)
(* may do harm before it finds out. A source can tell of it as long as the *)
(* newest record lists it: so Q of them have to be voters there when m     *)
(* becomes one (MSourcesGo). One that was left out and is not listed any   *)
(* more is not asked; with three memories none is left out.                *)
(*                                                                         *)
(* A vote counts where the memory shows exactly the record of the round as *)
(* settled, and that record lists it as a voter: Members.tla. The chosen   *)
(* records are one chain, and a step is one action: a quorum of the        *)
(* memories that the last record lists go on to the child. Others learn of *)
(* it at any time later, or never. A memory that has accepted a child and  *)
(* has not settled on it is here one that still votes, or can be read      *)
(* already: that allows more.                                              *)
(*                                                                         *)
(* Memories have names of their own; a spare takes the place of another    *)
(* one. The other may go on, as behind the move of a name, and no action   *)
(* of a memory has to happen: a learner that has forgotten is one that     *)
(* does nothing any more. A voter that fails holds nothing from then on,   *)
(* and its votes do not count.                                             *)
(*                                                                         *)
(* The code does more for the sake of those who wait, which excludes       *)
(* nobody: it writes where m still holds what it has shown, and reads the  *)
(* key again where not, the eighth time whatever m holds; of a value that  *)
(* m holds already it brings no end nearer; and it moves ends, for what    *)
(* takes failed attempts back (Lock.tla).                                  *)
(*                                                                         *)
(* Also allowing more than the code does: a copier begins under any record *)
(* that has listed m as a learner, also when m is a voter already; it      *)
(* begins anew, and reads a key anew, at any time, and may leave out the   *)
(* reading after the last key; of values that as many hold any one is      *)
(* taken; a SET is executed any number of times, by any memory, also long  *)
(* after its round; a round is of the record under which its first vote    *)
(* counts (where a token is repeated, Repeats, under a later record the    *)
(* votes before are dropped, and its key where it stands is a vote); time  *)
(* that passes between a reading and what is written by it takes of the    *)
(* end: no code writes an end that is nearer.                              *)
(*                                                                         *)
(* Ends: a Tick is one unit of TTLs. A lease is valid until its holder     *)
(* releases it (the first Delete), or its ticks are over, which count from *)
(* the first SET that was executed, or the first EXTEND that counts. A     *)
(* round that has failed is one of which a key is deleted, or that does    *)
(* nothing any more.                                                       *)
(*                                                                         *)
(* What one key is copied from and to depends on no other key, so one key  *)
(* is modelled, and two in one run. A value is one token, or a set of      *)
(* readers, without ends of their own; a value that changes (hashes, a     *)
(* HOLD) is one of two of its token, and any memory that holds it goes     *)
(* from one to the other at any time. The wait is left out: nobody becomes *)
(* a voter by it here. So are the clocks by which a failure is told.       *)
(*                                                                         *)
(* Five memories are more than three in this: four sources, least of two,  *)
(* and one of them can be left out. Without Anew a copier begins once,     *)
(* under the newest record, and reads each key once. That leaves out       *)
(* second copies, which the runs of three memories have.                   *)
(*                                                                         *)
(* Each CONSTANT named M... breaks one rule: TLC must find two holders, or *)
(* a grant with a fence that is no greater than those before it.           *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, Sequences, TLC

CONSTANTS
  First,     \* the memories of the first record, all of them voters
  Spares,    \* those that take the place of others
  Goes,      \* those whose place may be taken
  Copiers,
  Tokens,    \* of the first key; each is one round
  Readers,   \* those of them that share the lock with each other
  Tokens2,   \* of the second key; {}: there is one key
  Nobody,    \* the value of a key that does not exist
  Sentinel,
  MaxVersion,\* versions of the record, from 1
  Losses,    \* how many seats may have no vote at once
  Fails,     \* how many voters fail, and their replies show it
  Hides,     \* … and their replies do not show it
  Late,      \* the tokens whose SET and EXTEND are also executed where they do not count
  Repeats,   \* those whose SET also counts where it finds its key
  Changes,   \* those whose value changes
  Ticks,     \* TRUE: time passes
  TTL,       \* of a key and its lease, in ticks
  Longer,    \* … when EXTEND has been executed; 0: there is no EXTEND
  Fences,    \* those that rounds may have, from 1; {}: there are none
  Scans,     \* TRUE: a key is read when a source has named it; FALSE: all keys are
  Anew,      \* FALSE: a copier begins once, under the newest record, and reads each key once
  MNotLeft,     \* a source is read before it has left earlier records
  MMinority,    \* a reading less
  MLearnerSource,\* a source may be a learner
  MSourcesForget,\* what has taken the place of a source is read in its stead
  MLeastMore,   \* what is on a bare quorum is not copied
  MLeastOfAll,  \* least is that of all sources, also of those that were left out
  MDifferMore,  \* a lock on a bare quorum is overruled by another value
  MByValue,     \* … by another value that more hold than each of the lock's
  MFailedCounts,\* a source is read that shows that it failed
  MSourcesGo,   \* sources need not be voters any more when m becomes one
  MHiddenCounts,\* sources that were left out are not asked for what their replies do not show
  MScanLess,    \* the names of a source less
  MSmallerEnd,  \* m gets the smallest end
  MOneOfTwo,    \* m gets one of two values
  MOneReader,   \* m gets the readers of one source
  MOnlyAbsent,  \* m gets a value only where it holds none
  MBeforeLast,  \* m becomes a voter while a source has not been read for the last key
  MSentinelGoes,\* the sentinel is deleted because no source holds it
  MLateWrite,   \* m is written to when it is a voter
  MLateDelete,  \* … deleted from
  MFloorBefore, \* the fences of the sources are read before the copy
  MFloorFewer,  \* … of a source less
  MFloorFailed  \* … also of those that have failed

Mems == First \cup Spares
Quorum == Cardinality(First) \div 2 + 1
AllTokens == Tokens \cup Tokens2
Keys == IF Tokens2 = {} THEN 1 ELSE 2
KeyOf(t) == IF t \in Tokens THEN 1 ELSE 2
Max(i, j) == IF i > j THEN i ELSE j
Less(i) == IF i > 0 THEN i - 1 ELSE 0
MaxOf(S) == CHOOSE i \in S : \A j \in S : j <= i
MinOf(S) == CHOOSE i \in S : \A j \in S : j >= i

VARIABLES
  chain, \* the chosen records: the voters V, and the learners L
  rec,   \* the version that each memory shows as settled; 0: none
  ill,   \* which memories have failed, and whether their replies show it
  key,   \* what each memory holds for each key: a token, a set of readers, …; which of a lock's values that is
  tok,   \* each token's round or lease: the votes for it (or its EXTEND) and their version, the ticks that are left, and those of the EXTEND; its fence
  cop,   \* each copier: of which m, under which record; at which key, which are done, what was read, and what is to be written
  mark,  \* the highest fence that each memory has accepted
  granted\* the highest fence that was granted, of all keys; whether they grew
vars == <<chain, rec, ill, key, tok, cop, mark, granted>>

Last == chain[Len(chain)]
Listed(R) == R.V \cup R.L
Seen == UNION {Listed(chain[v]) : v \in 1..Len(chain)}
None == [val |-> Nobody, end |-> 0, of |-> 0]
New == [st |-> "asks", v |-> 0, votes |-> {}, left |-> 0, more |-> 0, fence |-> 0]
Over(t) == [New EXCEPT !.st = "over", !.fence = tok[t].fence]
Idle == [st |-> "idle", m |-> Nobody, v |-> 0, k |-> 0, done |-> {}, sentinel |-> FALSE, got |-> <<>>, scanned |-> {}, counted |-> {}, give |-> None, floor |-> 0]
Shared(h) == h.val \notin {Nobody, Sentinel} \cup AllTokens
Holds(h, t) == h.val = t \/ (Shared(h) /\ t \in h.val)

Init ==
  /\ chain = <<[V |-> First, L |-> {}]>>
  /\ rec = [x \in Mems |-> IF x \in First THEN 1 ELSE 0]
  /\ ill = [x \in Mems |-> "no"]
  /\ key = [x \in Mems |-> [k \in 1..Keys |-> None]]
  /\ tok = [t \in AllTokens |-> New]
  /\ cop = [p \in Copiers |-> Idle]
  /\ mark = [x \in Mems |-> 0]
  /\ granted = [fence |-> 0, grew |-> TRUE]
---------------------------------------------------------------------------------
(* The record. *)

(* A memory that no vote and no copy needs any more: its keys are left out. *)
Idles(x, v, R) ==
  /\ x \notin Listed(R) /\ \A w \in v..Len(chain) : w > 0 => x \notin chain[w].V
  /\ \A w \in 1..Len(chain) : chain[w].L # {} => x \notin chain[w].V

Choose(R) ==
  /\ Len(chain) < MaxVersion
  /\ chain' = Append(chain, R)
  /\ \E X \in {Y \in SUBSET Listed(Last) : Cardinality(Y) = Quorum} :
       /\ rec' = [x \in Mems |-> IF x \in X THEN Len(chain) + 1 ELSE rec[x]]
       /\ key' = [x \in Mems |-> IF Idles(x, rec'[x], R) THEN [k \in 1..Keys |-> None] ELSE key[x]]

\* code: member.Situation.Next; trace: RecordTrace
Replace ==
  /\ \E x \in Listed(Last) \cap Goes, y \in Spares \ Seen :
       LET R == [V |-> Last.V \ {x}, L |-> (Last.L \ {x}) \cup {y}] IN Cardinality(R.L) <= Losses /\ Choose(R)
  /\ UNCHANGED <<ill, tok, cop, mark, granted>>

\* code: survey.Masters.Teach, lua/learn.lua; trace: RecordTrace
Learn(x) ==
  /\ \E v \in rec[x] + 1..Len(chain) : x \in Listed(chain[v]) /\ rec' = [rec EXCEPT ![x] = v]
  /\ UNCHANGED <<chain, ill, key, tok, cop, mark, granted>>

(* A voter forgets, or what it holds ends early. *)
\* code: none: a voter forgets, or what it holds ends early
Fail(x, how) ==
  /\ x \in Last.V /\ (ill[x] = "no" \/ (ill[x] = "hidden" /\ how = "shown"))
  /\ Cardinality({y \in Mems : ill[y] = how}) < IF how = "shown" THEN Fails ELSE Hides
  /\ ill' = [ill EXCEPT ![x] = how]
  /\ key' = [key EXCEPT ![x] = [k \in 1..Keys |-> None]]
  /\ mark' = [mark EXCEPT ![x] = 0]
  /\ UNCHANGED <<chain, rec, tok, cop, granted>>
---------------------------------------------------------------------------------
(* Locks. *)

(* The votes of t so far that count together with one of x: none, where its SET is repeated under a later record. *)
VotesWith(t, x) == IF tok[t].v < rec[x] /\ t \in Repeats THEN {} ELSE tok[t].votes
MayCount(t, x) == rec[x] > 0 /\ x \in chain[rec[x]].V /\ (tok[t].v \in {0, rec[x]} \/ VotesWith(t, x) = {}) /\ x \notin VotesWith(t, x)
Must(t, x) == MayCount(t, x) /\ tok[t].v # 0
(* Where a command may be executed without counting: where somebody reads. *)
Besides(t, x) == t \in Late /\ x \in Listed(Last) \cup UNION {chain[cop[p].v].V : p \in {q \in Copiers : cop[q].v > 0}}
Wins(t, x) == Cardinality(VotesWith(t, x)) + 1 >= Quorum

\* code: Client.launchAttemptLocked, lua/acquire.lua, lua/join.lua; trace: Trace
Set(t, x) ==
  LET h == key[x][KeyOf(t)] IN
  /\ ill[x] = "no"
  /\ h.val = Nobody \/ (t \in Readers /\ Shared(h) /\ ~Holds(h, t)) \/ (t \in Repeats /\ Holds(h, t) /\ MayCount(t, x))
  /\ \E f \in IF tok[t].fence = 0 /\ Fences # {} THEN Fences ELSE {tok[t].fence} :
     LET o == [tok[t] EXCEPT !.fence = f, !.left = IF tok[t].st = "asks" /\ @ = 0 /\ Ticks THEN TTL ELSE @] IN
     /\ Fences = {} \/ f > mark[x]
     /\ mark' = [mark EXCEPT ![x] = f]
     /\ \/ /\ o.st = "asks" /\ MayCount(t, x)
           /\ tok' = [tok EXCEPT ![t] = IF Wins(t, x) THEN [o EXCEPT !.st = "holds", !.v = 0, !.votes = {}]
                                        ELSE [o EXCEPT !.v = rec[x], !.votes = VotesWith(t, x) \cup {x}]]
           /\ granted' = IF Wins(t, x) /\ Fences # {} THEN [fence |-> Max(f, granted.fence), grew |-> granted.grew /\ f > granted.fence] ELSE granted
        \/ /\ Besides(t, x) /\ ~(o.st = "asks" /\ Must(t, x))
           /\ tok' = [tok EXCEPT ![t] = o]
           /\ UNCHANGED granted
  /\ key' = [key EXCEPT ![x][KeyOf(t)] = [val |-> IF t \notin Readers THEN t ELSE IF h.val = Nobody THEN {t} ELSE h.val \cup {t}, end |-> Max(h.end, TTL), of |-> h.of]]
  /\ UNCHANGED <<chain, rec, ill, cop>>

\* code: Client.beginExtendLocked, lua/extend.lua; trace: Trace
Extend(t, x) ==
  /\ Longer > 0 /\ tok[t].st = "holds" /\ key[x][KeyOf(t)].val = t
  /\ \/ /\ MayCount(t, x)
        /\ LET more == IF VotesWith(t, x) = {} THEN Longer ELSE tok[t].more IN
           tok' = [tok EXCEPT ![t] = IF Wins(t, x) THEN [@ EXCEPT !.left = Max(@, more), !.v = 0, !.votes = {}, !.more = 0]
                                     ELSE [@ EXCEPT !.v = rec[x], !.votes = VotesWith(t, x) \cup {x}, !.more = more]]
     \/ Besides(t, x) /\ ~Must(t, x) /\ UNCHANGED tok
  /\ key' = [key EXCEPT ![x][KeyOf(t)].end = Max(@, Longer)]
  /\ UNCHANGED <<chain, rec, ill, cop, mark, granted>>

(* Another value takes the place of the lock's, or that is taken back. *)
\* code: Client.beginCommitLocked, lua/commit.lua, lua/undo.lua
Change(t, x) ==
  /\ t \in Changes /\ key[x][KeyOf(t)].val = t
  /\ key' = [key EXCEPT ![x][KeyOf(t)].of = 1 - @]
  /\ UNCHANGED <<chain, rec, ill, tok, cop, mark, granted>>

(* A release, or what takes a failed round back. Before the first one nothing has ended. *)
\* code: rounds.drop, Client.releaseLocked, lua/release.lua, lua/undo.lua; trace: Trace
Delete(t, x) ==
  LET h == key[x][KeyOf(t)] IN
  /\ Holds(h, t)
  /\ key' = [key EXCEPT ![x][KeyOf(t)] = IF t \in Readers /\ h.val # {t} THEN [h EXCEPT !.val = @ \ {t}] ELSE None]
  /\ tok' = [tok EXCEPT ![t] = Over(t)]
  /\ UNCHANGED <<chain, rec, ill, cop, mark, granted>>

\* code: none: time passes
Tick ==
  /\ Ticks
  /\ key' = [x \in Mems |-> [k \in 1..Keys |-> IF key[x][k].end <= 1 THEN None ELSE [key[x][k] EXCEPT !.end = @ - 1]]]
  /\ tok' = [t \in AllTokens |->
       LET o == tok[t] IN
       IF o.left = 1 THEN Over(t)
       ELSE IF o.more = 1 THEN [o EXCEPT !.left = Less(@), !.v = 0, !.votes = {}, !.more = 0]
       ELSE [o EXCEPT !.left = Less(@), !.more = Less(@)]]
  /\ cop' = [p \in Copiers |-> [cop[p] EXCEPT !.give.end = Less(@), !.got = [x \in DOMAIN @ |-> [@[x] EXCEPT !.end = Less(@)]]]]
  /\ UNCHANGED <<chain, rec, ill, mark, granted>>
---------------------------------------------------------------------------------
(* Copying. *)

IsLearner(q) == rec[q.m] >= q.v /\ q.m \in chain[rec[q.m]].L
Sources(q) == IF MLearnerSource THEN Listed(chain[q.v]) \ {q.m} ELSE chain[q.v].V
(* The memories that are read where source x is meant. *)
Behind(q, x) == {x} \cup IF MSourcesForget /\ x \notin Listed(Last) THEN Last.L \ {q.m} ELSE {}
Answers(q, x) == (MNotLeft \/ rec[x] >= q.v) /\ (ill[x] # "shown" \/ MFailedCounts)
Rest(q) == [q EXCEPT !.st = "rests", !.k = 0, !.sentinel = FALSE, !.got = <<>>, !.scanned = {}, !.give = None]
(* m is read, and then the sources are to be read. *)
ReadKey(q, k) == [Rest(q) EXCEPT !.st = "reads", !.k = k, !.sentinel = MSentinelGoes /\ key[q.m][k].val = Sentinel]
Scan(q, k) == IF Scans THEN [Rest(q) EXCEPT !.st = "scans", !.k = k] ELSE ReadKey(q, k)
Done(q) == LET r == [q EXCEPT !.done = @ \cup {q.k}] IN IF r.done # 1..Keys /\ q.k < Keys THEN Scan(r, q.k + 1) ELSE Rest(r)

\* code: coordinator.Coordinator.recoverOne, copying.Copier.Start, copying.Copy.begin
Begin(p) ==
  /\ Anew \/ cop[p].st = "idle"
  /\ \E v \in IF Anew THEN 1..Len(chain) ELSE {Len(chain)} : \E m \in chain[v].L \cap Listed(Last) :
       cop' = [cop EXCEPT ![p] = Scan([Idle EXCEPT !.m = m, !.v = v, !.floor = IF MFloorBefore THEN MaxOf({mark[x] : x \in chain[v].V}) ELSE 0], 1)]
  /\ UNCHANGED <<chain, rec, ill, key, tok, mark, granted>>

(* A source names its keys. When a quorum have not named this one, it is not read. *)
\* code: copying.Copy.pass, copying.Copy.named, copying.Copy.toRead
Name(p) ==
  LET q == cop[p] IN
  /\ q.st = "scans"
  /\ \E x \in Sources(q) \ q.scanned :
       LET r == [q EXCEPT !.scanned = @ \cup {x}] IN
       /\ Answers(q, x)
       /\ cop' = [cop EXCEPT ![p] = IF key[x][q.k].val # Nobody THEN ReadKey(q, q.k)
                                    ELSE IF Cardinality(r.scanned) < Quorum - IF MScanLess THEN 1 ELSE 0 THEN r
                                    ELSE Done(IF Hides = 0 THEN r ELSE [r EXCEPT !.counted = @ \cup r.scanned])]
  /\ UNCHANGED <<chain, rec, ill, key, tok, mark, granted>>

(* A key is read again: the sources differ, m holds something else by now, or all that m holds is compared once more. *)
\* code: copying.Copy.compare, copying.Copy.settleAll
Again(p) ==
  /\ Anew /\ cop[p].st \in {"reads", "writes", "rests"}
  /\ \E k \in IF cop[p].st = "rests" THEN 1..Keys ELSE {cop[p].k} : cop' = [cop EXCEPT ![p] = ReadKey(@, k)]
  /\ UNCHANGED <<chain, rec, ill, key, tok, mark, granted>>

(* What m is to get by what was read. *)
Decisions(q, got) ==
  LET n == Cardinality(DOMAIN got)
      least == Max(1, (IF MLeastOfAll THEN Cardinality(Sources(q)) ELSE n) - Quorum + 1) + IF MLeastMore THEN 1 ELSE 0
      holders == {x \in DOMAIN got : got[x].val # Nobody}
      Same(x, y) == (got[x].val = got[y].val /\ got[x].of = got[y].of) \/ (Shared(got[x]) /\ Shared(got[y]))
      alike(x) == {y \in holders : Same(x, y)}
      most == {x \in holders : \A y \in holders : Cardinality(alike(y)) <= Cardinality(alike(x))}
      differ(x) ==
        LET others == holders \ alike(x) IN
        /\ ~MOneOfTwo
        /\ IF MByValue THEN \E y \in others : Cardinality(alike(y)) >= least
           ELSE Cardinality(others) >= least + IF MDifferMore THEN 1 ELSE 0
      ends(S) == {got[y].end : y \in S}
  IN
  IF Cardinality(holders) < least \/ (q.sentinel /\ \A x \in holders : got[x].val # Sentinel) THEN {None}
  ELSE {IF differ(x) THEN [val |-> Sentinel, end |-> MaxOf(ends(holders)), of |-> 0]
        ELSE [val |-> IF Shared(got[x]) /\ ~MOneReader THEN UNION {got[y].val : y \in alike(x)} ELSE got[x].val,
              end |-> IF MSmallerEnd THEN MinOf(ends(alike(x))) ELSE MaxOf(ends(alike(x) \cup {y \in holders : got[y].val = Sentinel})),
              of |-> got[x].of] : x \in most}

(* A source is read. The readings of a quorum are enough: who has not been read then was left out. *)
\* code: copying.Copy.ask, copying.Copy.read, copying.Copy.least, copying.orderOf, lua/copy_read.lua, lua/copy_readers.lua
Read(p) ==
  LET q == cop[p] IN
  /\ q.st = "reads"
  /\ \E x \in Sources(q) \ DOMAIN q.got : \E y \in Behind(q, x) :
       LET got == [z \in DOMAIN q.got \cup {x} |-> IF z = x THEN key[y][q.k] ELSE q.got[z]] IN
       /\ Answers(q, y)
       /\ \/ DOMAIN got # Sources(q) /\ cop' = [cop EXCEPT ![p].got = got]
          \/ /\ Cardinality(DOMAIN got) >= Quorum - IF MMinority THEN 1 ELSE 0
             /\ \E g \in Decisions(q, got) :
                  cop' = [cop EXCEPT ![p] = [q EXCEPT !.st = "writes", !.got = <<>>, !.give = g,
                                                      !.counted = IF Hides = 0 THEN {} ELSE @ \cup DOMAIN got]]
  /\ UNCHANGED <<chain, rec, ill, key, tok, mark, granted>>

(* What m may hold when it was written to, in the place of h. Of readers that it has beside those of the sources, any may stay. A copy whose time is over is *)
(* a key that has ended. *)
Given(g, h) ==
  IF g.val = Nobody THEN {None}
  ELSE IF MOnlyAbsent /\ h.val # Nobody THEN {h}
  ELSE IF g.end = 0 THEN {None}
  ELSE IF Shared(g) /\ Shared(h) THEN {[g EXCEPT !.val = @ \cup S] : S \in SUBSET h.val}
  ELSE {g}

\* code: copying.Copy.order, copying.Copy.settledOn, copying.Copy.giveCommand, copying.Copy.writeReaders, lua/copy_give.lua, lua/copy_readers.lua; trace: Trace
Write(p) ==
  LET q == cop[p]
      h == key[q.m][q.k]
      deletes == q.give.val = Nobody
      told == IsLearner(q) \/ (MLateWrite /\ ~deletes) \/ (MLateDelete /\ deletes)
  IN
  /\ q.st = "writes"
  /\ deletes \/ told \* what is not deleted can stay: the copier goes on
  /\ \E g \in IF told THEN Given(q.give, h) ELSE {h} : key' = [key EXCEPT ![q.m][q.k] = g]
  /\ cop' = [cop EXCEPT ![p] = Done(q)]
  /\ UNCHANGED <<chain, rec, ill, tok, mark, granted>>

\* code: coordinator.Coordinator.recovered, copying.Copy.StillGood, coordinator.Coordinator.raiseFloors, survey.RaiseFloor, lua/admit_floor.lua; trace: Trace
Promote(p) ==
  LET q == cop[p]
      there == {x \in Sources(q) : /\ ill[x] = "no" \/ (ill[x] = "hidden" /\ x \notin Listed(Last)) \/ (ill[x] = "shown" /\ MFloorFailed)
                                   /\ x \in Last.V \/ MSourcesGo \/ (MLearnerSource /\ x \in Last.L) \/ MSourcesForget}
      enough == Quorum - IF MMinority \/ MFloorFewer THEN 1 ELSE 0
  IN
  /\ \/ q.st = "rests" /\ q.done = 1..Keys
     \/ MBeforeLast /\ q.st = "reads" /\ q.k = Keys /\ q.got # <<>>
  /\ q.m \in Last.L
  /\ MHiddenCounts \/ \A x \in q.counted \cap Listed(Last) : ill[x] # "hidden"
  /\ Cardinality(there) >= enough
  /\ Choose([V |-> Last.V \cup {q.m}, L |-> Last.L \ {q.m}])
  /\ IF Fences = {} THEN UNCHANGED mark
     ELSE \E F \in {X \in SUBSET there : Cardinality(X) = enough} :
            mark' = [mark EXCEPT ![q.m] = Max(@, IF MFloorBefore THEN q.floor ELSE MaxOf({mark[x] : x \in F}))]
  /\ cop' = [cop EXCEPT ![p] = Idle]
  /\ UNCHANGED <<ill, tok, granted>>
---------------------------------------------------------------------------------
Next ==
  \/ Replace \/ Tick
  \/ \E x \in Seen : Learn(x) \/ Fail(x, "shown") \/ Fail(x, "hidden") \/ \E t \in AllTokens : Set(t, x) \/ Extend(t, x) \/ Change(t, x) \/ Delete(t, x)
  \/ \E p \in Copiers : Begin(p) \/ Name(p) \/ Again(p) \/ Read(p) \/ Write(p) \/ Promote(p)
Spec == Init /\ [][Next]_vars

MutualExclusion == \A t, u \in AllTokens : t # u /\ KeyOf(t) = KeyOf(u) /\ ~{t, u} \subseteq Readers => ~(tok[t].st = "holds" /\ tok[u].st = "holds")
(* With one key. *)
FencesGrow == granted.grew

Alike ==
  {{u \in AllTokens : \A S \in {Tokens, Readers, Late, Repeats, Changes} : u \in S <=> t \in S} : t \in AllTokens}
    \cup {Copiers, First \cap Goes, First \ Goes, Spares \cap Goes, Spares \ Goes}
Perms == UNION {Permutations(S) : S \in Alike}
=================================================================================
