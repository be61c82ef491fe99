#include "app/training/checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include "app/build_info.h"
#include "base/clock.h"
#include "base/units.h"

namespace foretrain {
namespace {

constexpr std::string_view kResume = "--resume";

// Whether the run can go on from the checkpoint. Shapes are checked by Checkpoint::CheckFits.
Result<void> CheckSameRun(const Checkpoint& checkpoint, const Plan& plan, const TrainJob& job,
                          std::uint64_t data_digest) {
  const Manifest& saved = checkpoint.manifest();
  const std::string start = "--resume: " + checkpoint.path() + " ";
  if (saved.plan.global_batch != plan.global_batch || saved.plan.sequence != plan.sequence) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{}has batches of {} x {} tokens, this run of {} x {}, which would read "
                    "other data; leave --global-batch and --sequence as they were",
                    start, saved.plan.global_batch, saved.plan.sequence, plan.global_batch,
                    plan.sequence));
  }
  if (saved.seed != job.seed) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}has seed {}, this run {}; leave --seed as it was", start, saved.seed,
                            job.seed));
  }
  // Sequence and seed count in the digest too; their own messages are above.
  if (saved.data != data_digest) {
    return Fail(ErrorCode::kInvalidArgument,
                start +
                    "was trained on other data or in another order; give its --data, --tokenizer, "
                    "--shuffle, --documents, --document-end and --eval-fraction, or start anew "
                    "from its weights");
  }
  if (saved.step >= job.steps) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}has {} steps of {} already; give more with --steps", start,
                            saved.step, job.steps));
  }
  return {};
}

// Rank 0's process compares all checksums and chooses; others read what they are told.
Result<NewestCheckpoint> ChooseCheckpoint(const std::string& path, ProcessGroup* group) {
  constexpr const char* kChosen = "checkpoint to resume";
  PosixFileSystem files;
  if (group == nullptr) return OpenNewest(files, path);
  if (group->rank() != 0) {
    FT_ASSIGN(const std::string chosen, group->Get(0, kChosen, nullptr));
    return OpenNewest(files, chosen, /*verify=*/false);
  }
  FT_ASSIGN(NewestCheckpoint newest, OpenNewest(files, path));
  FT_TRY(group->Put(0, kChosen, newest.checkpoint.path()));
  return newest;
}

Result<void> PrepareResume(const std::string& path, const Program& program,
                           std::uint64_t data_digest, TrainJob& job) {
  FT_ASSIGN(NewestCheckpoint newest, ChooseCheckpoint(path, job.processes));
  for (const std::string& damaged : newest.damaged) {
    std::fprintf(stderr, "foretrain: passed over a damaged checkpoint: %s\n", damaged.c_str());
  }
  FT_TRY(CheckSameRun(newest.checkpoint, program.plan, job, data_digest));
  FT_TRY(newest.checkpoint.CheckFits(program));
  job.save.time = ContinuedTime(newest.checkpoint.manifest().time, SystemClock().RealtimeNs());
  job.executor.first_step = newest.checkpoint.manifest().step;
  job.steps -= job.executor.first_step;
  job.resume = std::make_shared<const Checkpoint>(std::move(newest.checkpoint));
  return {};
}

// Whether the argument is the option `name`, alone or with a value after "=".
bool Is(const std::string& argument, std::string_view name) {
  return argument == name || argument.starts_with(std::string(name) + "=");
}

}  // namespace

Result<void> PrepareCheckpoints(const CheckpointOptions& options, const Program& program,
                                std::uint64_t data_digest, double step_s, TrainJob& job) {
  const std::int64_t all_steps = job.steps;
  if (!options.resume.empty()) {
    FT_TRY(PrepareResume(options.resume, program, data_digest, job));
  } else {
    job.save.time.began_unix_ns = SystemClock().RealtimeNs();
  }
  ProcessGroup* const group = job.processes;
  if (group != nullptr) {
    FT_TRY(group->Agree("checkpoint", fmt::format("step {}, saved in \"{}\" each {} steps or {} ns",
                                                  job.executor.first_step, options.save,
                                                  options.every.steps, options.every.ns)));
  }
  if (options.save.empty()) return {};
  SavePlan& save = job.save;
  save.every_steps = options.every.steps;
  save.every_ns = options.every.ns;
  if (group != nullptr && save.every_ns > 0) {
    const double steps = SecondsFromNs(save.every_ns) / std::max(step_s, 1e-9);
    save.every_steps = std::clamp<std::int64_t>(static_cast<std::int64_t>(steps), 1, all_steps);
    save.every_ns = 0;
  }
  save.saver.folder = options.save;
  save.saver.keep = options.keep;
  save.saver.processes = group;
  save.saver.first_rank = group != nullptr ? group->rank() : 0;
  Manifest& manifest = save.saver.manifest;
  manifest.seed = job.seed;
  manifest.data = data_digest;
  manifest.model = program.model;
  manifest.plan = program.plan;
  manifest.version = std::string(kBuildInfo.version) + " " + std::string(kBuildInfo.commit);
  manifest.arguments = options.arguments;
  return {};
}

// "--resume DIR" becomes "--resume=DIR", so that the option may stand without a value.
Result<std::vector<std::string>> WithSavedArguments(std::vector<std::string> arguments) {
  if (arguments.empty() || arguments.front() != "train") return arguments;
  std::vector<std::string> given;
  std::string folder;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i] == "--help" || arguments[i] == "-h") return arguments;
    if (!Is(arguments[i], kResume)) {
      given.push_back(arguments[i]);
      continue;
    }
    const std::size_t equals = arguments[i].find('=');
    const bool follows = equals == std::string::npos && i + 1 < arguments.size() &&
                         !arguments[i + 1].starts_with("-");
    folder = equals != std::string::npos ? arguments[i].substr(equals + 1)
             : follows                   ? arguments[++i]
                                         : kDefaultCheckpoints;
  }
  if (folder.empty()) return arguments;
  PosixFileSystem files;
  FT_ASSIGN(const NewestCheckpoint newest, OpenNewest(files, folder, /*verify=*/false));
  std::vector<std::string> all{"train"};
  const std::vector<std::string>& saved = newest.checkpoint.manifest().arguments;
  all.insert(all.end(), saved.begin(), saved.end());
  all.insert(all.end(), given.begin(), given.end());
  all.push_back(std::string(kResume) + "=" + folder);
  return all;
}

}  // namespace foretrain
