// Messages between the processes of a run besides its communication: failures and deaths, the
// number of steps, recorded data, and values by which ranks find each other. Every process has one
// authenticated connection, to rank 0's, and rank 0 accepts no other once all have come. Tensors go
// through runtime/processes/process_world.h or runtime/nccl/.
//
//   rank 1 ── failure, stop, records, summary, last ops, values ──►  rank 0 ──► store
//          ◄── failure of another, steps granted, over, values ──  ──► all others
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"
#include "runtime/executor/executor.h"
#include "runtime/processes/id_store.h"
#include "runtime/processes/launched_rank.h"
#include "runtime/processes/peer_clock.h"
#include "runtime/processes/records.h"
#include "runtime/processes/wire/connection.h"
#include "runtime/run/rank_world.h"
#include "runtime/run/run_clock.h"
#include "runtime/run/run_control.h"
#include "runtime/run/run_sink.h"
#include "runtime/run/step_agreement.h"

namespace foretrain {

struct Joined;

class ProcessGroup : public StepAgreement, public IdStore {
 public:
  // Returns once all processes have joined. All prove to each other that they have the job's key:
  // that of `at.token`, or without one that of a file of rank 0 on this machine.
  //
  //   timeout_ns  wait for the others, and for each of their messages from its first byte
  //
  // Errors: kInvalidArgument, ranks on several machines without a token, two processes with one
  // rank, or another number of processes; kIo, rank 0 cannot listen; kTimeout, naming the ranks
  // that did not come, or rank 0.
  static Result<std::unique_ptr<ProcessGroup>> Join(const LaunchedRank& at,
                                                    std::int64_t timeout_ns);
  // Says goodbye: a connection that ends without it means that the process died.
  ~ProcessGroup() override;

  int rank() const { return at_.rank; }
  int world() const { return at_.world; }
  // Key of this run's connections between ranks; an earlier run with the same token had another.
  const std::string& run_key() const { return run_key_; }
  // address of this process, for the others
  const std::string& address() const { return address_; }

  // IdStore: rank 0 keeps the values of all ranks. `rank` must be this process's. Further errors:
  // kInvalidArgument, name and value exceed 60 kB; the run's, if it has failed.
  Result<void> Put(int rank, const std::string& name, const std::string& value) override;
  Result<std::string> Get(int owner, const std::string& name,
                          const std::function<bool()>& over) override;

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

  // Rank 0: the sink for others' records of these steps, called one at a time; null: drop them.
  void Collect(RunSink* sink, std::int64_t first_step = 0, std::int64_t end_step = INT32_MAX);
  // Other ranks: a sink that sends everything to rank 0. Counters may come from another thread.
  RunSink& Sender();

  // Called by every process after a failed run with its own text of last ops. Other ranks send it
  // to rank 0, which returns all that come within a second, in the order of ranks. A process that
  // died sends none.
  std::string GatherLastOps(std::string own);

  // Called when all ranks have run their steps. Returns the summary of all ranks on rank 0, and the
  // own one elsewhere. Errors: kTimeout, naming ranks; the run's, if another process failed.
  Result<RunSummary> Finish(RunSummary mine);

 private:
  class SenderSink;
  struct Peer {
    explicit Peer(Connection made) : connection(std::move(made)) {}
    Connection connection;
    std::mutex sending;
    bool gone = false;                    // guarded by the group's mutex_, as all below
    std::optional<RunSummary> summary;    // set once it has run all steps
    std::optional<std::string> last_ops;  // set once it has sent them
    int unanswered = 0;  // questions for the time, received before there was a clock
  };

  ProcessGroup(LaunchedRank at, std::int64_t timeout_ns);
  // `address`: of rank 0; `key`: the job's, if a token was given.
  Result<void> AcceptAll(const std::string& address, const std::string& key);
  Result<void> AcceptAt(const Socket& listener, const std::string& address, const std::string& key);
  Result<void> JoinFirst(const std::string& address, const std::string& key);
  void Begin(const std::string& key, const std::string& run_id);
  Result<void> Admit(Joined& joined, const std::string& run_id);

  void Listen();  // body of the listening thread
  // Reads one message, if it is whole. Errors: the connection has ended, or the message is not one
  // that this process expects.
  Result<void> Hear(int rank, Peer& peer);
  // False if the message is not valid.
  bool Obey(int rank, Peer& peer, const Frame& frame);
  bool ObeyFailure(int rank, const std::string& text);
  bool ObeyNumber(char type, const std::string& text);
  bool ObeyValue(int rank, Peer& peer, const Frame& frame);
  bool ObeyRecord(int rank, const Frame& frame);
  bool ObeySummary(Peer& peer, const std::string& text);
  bool ObeyLastOps(int rank, Peer& peer, const std::string& text);
  void AnswerTime(Peer& peer);
  Result<void> Store(int rank, const std::string& name, const std::string& value);
  void Send(Peer& peer, char type, std::string_view text);
  void SendAll(char type, std::string_view text, int but = -1);
  // Records the run's failure, caused by `rank`, and tells all except `but`.
  void SpreadFailure(int rank, const Error& error, int but = -1);
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
  std::string run_key_;
  std::string address_;
  ThreadIdStore values_;  // on rank 0 all, elsewhere those that it stored or asked for
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
  // rank 0: ranks that asked for a value that is not there yet; else: values that were asked for
  std::map<std::pair<int, std::string>, std::vector<int>> asked_;

  std::mutex collecting_;
  RunSink* collected_ = nullptr;  // guarded by collecting_, as the limits
  RecordLimits limits_;
};

// Worlds of `inner` in a group: created in Enter, ended by Leave. They share the group, because
// threads of a failed run may outlive its maker.
WorldMaker InGroup(std::shared_ptr<ProcessGroup> group, WorldMaker inner);

}  // namespace foretrain
