// What the processes of a run tell each other beside the program's communication: that one failed
// or died, how far the run goes, what each recorded. Every process has one connection to that of
// rank 0. Leaves out tensors: runtime/processes/socket_world.h, runtime/nccl/.
//
//   rank 1 ── failure, stop, spans, samples, summary ──►  rank 0 ──► store
//          ◄── failure of another, steps granted, over ──        ──► all others
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "runtime/executor.h"
#include "runtime/processes/id_store.h"
#include "runtime/processes/launched_rank.h"
#include "runtime/processes/peer_clock.h"
#include "runtime/processes/socket.h"
#include "runtime/rank_world.h"
#include "runtime/run_clock.h"
#include "runtime/run_control.h"
#include "runtime/run_sink.h"
#include "runtime/step_agreement.h"

namespace foretrain {

class ProcessGroup : public StepAgreement {
 public:
  // Returns when all processes have come. Errors: kIo, rank 0 cannot listen; kTimeout, naming the
  // ranks that have not come, or rank 0.
  static Result<std::unique_ptr<ProcessGroup>> Join(const LaunchedRank& at,
                                                    std::int64_t timeout_ns);
  // Says goodbye: a connection that ends without is a process that died.
  ~ProcessGroup() override;

  int rank() const { return at_.rank; }
  int world() const { return at_.world; }
  const std::shared_ptr<IdStore>& store() const { return store_; }
  // Says that a connection is of this run.
  const std::string& run_id() const { return run_id_; }
  const std::string& address() const { return address_; }  // of this process, for the others

  // `value` is that of rank 0. Errors: kInvalidArgument, it is not: "rank 2 has another `what` than
  // rank 0: ..."; those of the store.
  Result<void> Agree(const std::string& what, const std::string& value);

  // The run's first error anywhere ends it everywhere, from here until Leave; and what is recorded
  // here is put on the clock of rank 0, which is read again each second. Errors: the run has failed
  // already; kTimeout.
  Result<void> Enter(const RunClock& clock, RunControl& control);
  void Leave();
  // This process's run has failed where no RunControl knows of it.
  void TellFailure(const Error& error);

  // StepAgreement: rank 0 lets the others begin one step more than it has begun itself, and where
  // any asks to stop, no more than it had let begin.
  bool MayBegin(std::int64_t step, bool stop) override;

  // Of rank 0: where what the others record goes, one call at a time; null: nowhere any more.
  void Collect(RunSink* sink);
  // Of the others: sends what it is given to rank 0. Counters may come from a thread of their own.
  RunSink& Sender();

  // All ranks have run their steps. Returns, for rank 0, the summary of all of them; for the others
  // its own. Errors: kTimeout, naming ranks; the run's, where another failed.
  Result<RunSummary> Finish(RunSummary mine);

 private:
  class SenderSink;
  struct Peer {
    Socket socket;
    std::mutex sending;
    bool gone = false;                  // guarded by the group's mutex_, as all below
    std::optional<RunSummary> summary;  // once it has run all steps
    int unanswered = 0;                 // questions for the time, before there was a clock
  };

  ProcessGroup(LaunchedRank at, std::int64_t timeout_ns);
  Result<void> Connect();
  Result<void> AcceptAll();
  Result<void> JoinFirst();

  void Listen();  // the thread's body
  // Reads one message. False: the other end has gone.
  bool Hear(int rank, Peer& peer);
  void Obey(int rank, Peer& peer, char what, const std::string& text);
  void ObeyRecord(char what, const std::string& text);
  void Send(Peer& peer, char what, std::string_view text);
  void SendAll(char what, std::string_view text, int but = -1);
  // Notes the run's failure, for which `rank` is to blame, and tells all but `but`.
  void SpreadFailure(int rank, const Error& error, int but);
  void LookAtOwnRun();
  Result<void> AlignClock();
  void AskTime();
  void HearTime(std::int64_t answer_ns);
  ClockFit Fit() const;
  bool KnowsTime() const;
  std::string MissingText() const;  // mutex_ held
  template <class Ready>
  Result<void> Await(Ready ready, const std::string& what);

  const LaunchedRank at_;
  const std::int64_t timeout_ns_;
  std::shared_ptr<IdStore> store_;  // shared with the worlds of NCCL
  std::string run_id_;
  std::string address_;
  std::map<int, std::unique_ptr<Peer>> peers_;  // of rank 0 all others, of others rank 0
  std::unique_ptr<SenderSink> sender_;
  std::thread thread_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool closing_ = false;  // guarded by mutex_, as all below
  std::optional<Error> failure_;
  int failed_rank_ = -1;
  const RunClock* clock_ = nullptr;
  RunControl* control_ = nullptr;
  PeerClock peer_clock_;             // of others than rank 0
  std::int64_t granted_ = 0;         // steps that may begin
  std::optional<std::int64_t> end_;  // steps that will, once that is settled early
  bool stop_asked_ = false;
  bool over_ = false;  // all ranks have run their steps

  std::mutex collecting_;
  RunSink* collected_ = nullptr;  // guarded by collecting_
};

// Worlds of `inner` in a group: made in Enter, ended with Leave. They share the group, because
// threads of a failed run may outlive who made it.
WorldMaker InGroup(std::shared_ptr<ProcessGroup> group, WorldMaker inner);

}  // namespace foretrain
