#include "app/cli/flags/launch_flags.h"

#include <cstdlib>

#include "runtime/processes/wire/job_key.h"

namespace foretrain {

void LaunchFlags::Declare(Arguments& arguments) {
  arguments.Option("--job-token", token_file_, "FILE",
                   "Ranks as processes: file with the job's secret, which its owner alone can "
                   "read; default: the variable FORETRAIN_JOB_TOKEN");
  arguments.Choice("--check-transfers", check_,
                   {{"none", TransferCheck::kNone},
                    {"crc32c", TransferCheck::kCrc32c},
                    {"hmac", TransferCheck::kHmac}},
                   "Ranks as processes on CPUs: check tensors for damage (crc32c), or for changes "
                   "by an attacker too (hmac)");
}

// A command line is visible to all users of a machine, hence a file.
Result<LaunchedRank> LaunchFlags::Launched() const {
  FT_ASSIGN(LaunchedRank launched,
            ReadLaunchedRank([](const char* name) -> const char* { return std::getenv(name); }));
  if (launched.world == 1 && (!token_file_.empty() || check_ != TransferCheck::kNone)) {
    return Fail(
        ErrorCode::kInvalidArgument,
        "--job-token and --check-transfers are for ranks that are processes; launch several "
        "or leave them out");
  }
  if (!token_file_.empty()) {
    FT_ASSIGN(launched.token, ReadTokenFile(token_file_));
  }
  return launched;
}

}  // namespace foretrain
