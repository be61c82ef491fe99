// Messages between the processes of a run besides its communication: failures and deaths, the
// number of steps, and recorded data. Every process has one connection, to rank 0's. Tensors go
// through runtime/processes/socket_world.h or runtime/nccl/.
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

#include "base/result.h"
#include "runtime/executor/executor.h"
#include "runtime/processes/id_store.h"
#include "runtime/processes/launched_rank.h"
#include "runtime/processes/peer_clock.h"
#include "runtime/processes/socket.h"
#include "runtime/run/rank_world.h"
#include "runtime/run/run_clock.h"
#include "runtime/run/run_control.h"
#include "runtime/run/run_sink.h"
#include "runtime/run/step_agreement.h"

namespace foretrain {

class ProcessGroup : public StepAgreement {
 public:
  // Returns once all processes have joined. Errors: kIo, rank 0 cannot listen; kTimeout, naming the
  // ranks that did not come, or rank 0.
  static Result<std::unique_ptr<ProcessGroup>> Join(const LaunchedRank& at,
                                                    std::int64_t timeout_ns);
  // Says goodbye: a connection that ends without it means that the process died.
  ~ProcessGroup() override;

  int rank() const { return at_.rank; }
  int world() const { return at_.world; }
  const std::shared_ptr<IdStore>& store() const { return store_; }
  // Identifies connections of this run.
  const std::string& run_id() const { return run_id_; }
  // address of this process, for the others
  const std::string& address() const { return address_; }

  // Checks that `value` equals rank 0's. Errors: kInvalidArgument, it does not: "rank 2 has another
  // `what` than rank 0: ..."; those of the store.
  Result<void> Agree(const std::string& what, const std::string& value);

  // From here until Leave, the run's first error anywhere ends it everywhere, and records are
  // converted to rank 0's clock, which is read once a second. Errors: the run has failed already;
  // kTimeout.
  Result<void> Enter(const RunClock& clock, RunControl& control);
  void Leave();
  // Reports that this process failed before a RunControl existed.
  void TellFailure(const Error& error);

  // StepAgreement: rank 0 lets the others begin one step more than it has begun itself. After a
  // request to stop, no step beyond those granted begins.
  bool MayBegin(std::int64_t step, bool stop) override;

  // Rank 0: the sink for others' records, called one at a time; null: drop them.
  void Collect(RunSink* sink);
  // Other ranks: a sink that sends everything to rank 0. Counters may come from another thread.
  RunSink& Sender();

  // Called when all ranks have run their steps. Returns the summary of all ranks on rank 0, and the
  // own one elsewhere. Errors: kTimeout, naming ranks; the run's, if another process failed.
  Result<RunSummary> Finish(RunSummary mine);

 private:
  class SenderSink;
  struct Peer {
    Socket socket;
    std::mutex sending;
    bool gone = false;                  // guarded by the group's mutex_, as all below
    std::optional<RunSummary> summary;  // set once it has run all steps
    int unanswered = 0;                 // questions for the time, received before there was a clock
  };

  ProcessGroup(LaunchedRank at, std::int64_t timeout_ns);
  Result<void> Connect();
  Result<void> AcceptAll();
  Result<void> JoinFirst();

  void Listen();  // body of the listening thread
  // Reads one message; false if the other end has gone.
  bool Hear(int rank, Peer& peer);
  void Obey(int rank, Peer& peer, char what, const std::string& text);
  void ObeyRecord(char what, const std::string& text);
  void Send(Peer& peer, char what, std::string_view text);
  void SendAll(char what, std::string_view text, int but = -1);
  // Records the run's failure, caused by `rank`, and tells all except `but`.
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
  std::shared_ptr<IdStore> store_;  // shared with the NCCL worlds
  std::string run_id_;
  std::string address_;
  std::map<int, std::unique_ptr<Peer>> peers_;  // on rank 0 all others, elsewhere rank 0
  std::unique_ptr<SenderSink> sender_;
  std::thread thread_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool closing_ = false;  // guarded by mutex_, as all below
  std::optional<Error> failure_;
  int failed_rank_ = -1;
  const RunClock* clock_ = nullptr;
  RunControl* control_ = nullptr;
  PeerClock peer_clock_;             // unused on rank 0
  std::int64_t granted_ = 0;         // number of steps that may begin
  std::optional<std::int64_t> end_;  // final number of steps, once fixed early
  bool stop_asked_ = false;
  bool over_ = false;  // all ranks have run their steps

  std::mutex collecting_;
  RunSink* collected_ = nullptr;  // guarded by collecting_
};

// Worlds of `inner` in a group: created in Enter, ended by Leave. They share the group, because
// threads of a failed run may outlive its maker.
WorldMaker InGroup(std::shared_ptr<ProcessGroup> group, WorldMaker inner);

}  // namespace foretrain
