// One rank's end of an NCCL communicator, and its calls. Creation and destruction:
// runtime/nccl/nccl_set.h.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "runtime/nccl/nccl_set.h"

namespace foretrain {

class NcclEndpoint : public Communicator {
 public:
  NcclEndpoint(NcclSet& set, NcclComm* comm, int members, int member)
      : set_(set), comm_(comm), members_(members), member_(member) {}

  // Errors: kIo, NCCL's own, with the call; kAborted; kTimeout, NCCL does not accept the call in
  // time.
  Result<CommTimes> Call(const CommCall& call, FtQueue* queue) override;

  NcclComm* comm() const { return comm_; }
  // kNcclSuccess, kNcclInProgress or NCCL's error; success after Abort.
  int State() const;
  // Aborts the current call; the communicator cannot be used afterwards.
  void Abort();
  // The most recent call: "all_reduce grads.bucket2 (step 4)".
  std::string LastText() const;

 private:
  template <class Work>
  Result<void> Guarded(const CommCall& call, Work work);
  Result<void> Give(const CommCall& call, FtQueue* queue);
  // Adds the contents of `scratch_` to the call's `out`.
  Result<void> AddTo(const CommCall& call, FtQueue* queue) const;
  Result<void> Reduce(const CommCall& call, void* stream);
  // Sends and receives of one group, with a part for each member.
  Result<void> Exchange(const CommCall& call, void* stream);
  Result<void> Told(int result, const CommCall& call) const;
  Result<void> Check(const CommCall& call) const;

  NcclSet& set_;
  NcclComm* const comm_;
  const int members_;
  const int member_;
  // Sums that are added to `out`, largest last. Smaller ones are kept, because work given to the
  // device earlier may still use them.
  std::vector<DeviceMemory> scratch_;
  mutable std::mutex mutex_;  // guards NCCL's calls with comm_, which return at once
  std::string last_;          // guarded by mutex_
  bool aborted_ = false;      // guarded by mutex_; if true, NCCL has freed comm_
};

}  // namespace foretrain
