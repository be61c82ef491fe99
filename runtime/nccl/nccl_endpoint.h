// One rank's end of a communicator of NCCL, and what its calls are. Leaves out its making and
// ending: runtime/nccl/nccl_set.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/nccl/nccl_set.h"

namespace foretrain {

class NcclEndpoint : public Communicator {
 public:
  NcclEndpoint(NcclSet& set, NcclComm* comm, int members, int member)
      : set_(set), comm_(comm), members_(members), member_(member) {}

  // Errors: kIo, NCCL's own, with the call; kAborted; kTimeout, the call is not taken in time.
  Result<CommTimes> Call(const CommCall& call, FtQueue* queue) override;

  NcclComm* comm() const { return comm_; }
  // kNcclSuccess, kNcclInProgress, or what it failed of; once it was ended, success.
  int State() const;
  // Ends what it is at; no call of it is made any more.
  void Abort();
  // The call it was at last: "all_reduce grads.bucket2 (step 4)".
  std::string LastText() const;

 private:
  template <class Work>
  Result<void> Guarded(const CommCall& call, Work work);
  Result<void> Give(const CommCall& call, FtQueue* queue);
  // What `scratch_` has got is added to the call's `out`.
  Result<void> AddTo(const CommCall& call, FtQueue* queue) const;
  Result<void> Reduce(const CommCall& call, void* stream);
  // Sends and receives of one group: `part` of either, in elements, for each member.
  Result<void> Exchange(const CommCall& call, void* stream);
  Result<void> Told(int result, const CommCall& call) const;
  Result<void> Check(const CommCall& call) const;

  NcclSet& set_;
  NcclComm* const comm_;
  const int members_;
  const int member_;
  // Sums that are added to what was there, the largest last: work that was given to the device
  // before may still use those before it.
  std::vector<DeviceMemory> scratch_;
  mutable std::mutex mutex_;  // of NCCL's calls with comm_, which return at once
  std::string last_;          // guarded by mutex_
  bool aborted_ = false;      // guarded by mutex_: NCCL has freed comm_
};

}  // namespace foretrain
