// The flags of ranks that are processes: --job-token and --check-transfers.
#pragma once

#include <string>

#include "app/cli/arguments.h"
#include "base/result.h"
#include "runtime/processes/launched_rank.h"
#include "runtime/processes/transfer_codes.h"

namespace foretrain {

class LaunchFlags {
 public:
  void Declare(Arguments& arguments);

  // The rank that a launcher made this process for, with the job's token. Errors: kInvalidArgument,
  // the launcher's variables contradict each other, the file of the token is not private, or a flag
  // was given to a process that is not one of several.
  Result<LaunchedRank> Launched() const;
  TransferCheck check() const { return check_; }

 private:
  std::string token_file_;
  TransferCheck check_ = TransferCheck::kNone;
};

}  // namespace foretrain
