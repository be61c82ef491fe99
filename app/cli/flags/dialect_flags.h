// --from, --strict and --emit: launch files of other trainers, in and out; --for: their software.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/cli/flags/plan_flags.h"
#include "base/result.h"
#include "sim/config/launch/read_launch.h"

namespace foretrain {

class JsonWriter;

// Which options of a plan a launch file gives. kTraining: those that say what is trained (batch,
// number formats, optimizer), and a search chooses the rest.
enum class LaunchFields : std::uint8_t { kAll, kTraining };

class DialectFlags {
 public:
  // `writes`: also --emit.
  void Declare(Arguments& arguments, bool writes);
  // --for.
  void DeclareTrainer(Arguments& arguments, const std::string& help);

  // Reads the files, so that an error of Read is one of what they say. Read does it otherwise.
  // Errors: a --from without a dialect or a file, files that cannot be read, another trainer's.
  Result<void> Open();

  // Gives the options that the user left open the values of the file: model, ranks of a local
  // cluster, and plan. Errors: see ReadLaunch; kInvalidArgument for a --from without a dialect.
  Result<void> Read(LaunchFields fields, ModelFlags& model, ClusterFlags& cluster, PlanFlags& plan);

  bool reads() const { return !from_.empty(); }
  bool emits() const { return !emit_.empty(); }
  // The launch that the files describe; set even if Read then fails for want of an option.
  const std::optional<Launch>& launch() const { return launch_; }

  // The built-in dialects, and that of the file; after Open.
  const std::vector<Dialect>& dialects() const { return dialects_; }
  const Dialect& dialect() const { return parts_.front().dialect; }

  // The trainer's software, as a preset without options; `nullopt` without --from and --for, or if
  // nothing is known of it. That of --for overlaps tensor parallelism if it can, that of a file if
  // the file says so. Errors: an unknown trainer.
  Result<std::optional<Preset>> Software() const;
  // Fields of the plan that the user gave beside the file.
  const std::vector<const PlanField*>& given() const { return given_; }
  // The trainer of --for, else that of the file, else kAnyTrainer.
  std::string Trainer() const;
  // " --for megatron", which gives the software again where no file does; else empty.
  std::string ForText() const;

  // Lines for the head of an answer; empty without --from.
  std::string AccountText() const;
  // "launch": the same, with every key.
  void WriteAccount(JsonWriter& json) const;

  static constexpr const char* kAnyTrainer = "any";

  struct Emitted {
    std::string text;
    std::string unsaid;  // what the file cannot say; empty: nothing
  };
  // The launch file of `plan` for --emit; empty without it. Errors: an unknown dialect; with
  // --strict, anything unsaid.
  Result<Emitted> Emit(const Plan& plan, const ModelSpec& model, const ModelFlags& flags,
                       const ClusterSpec& cluster) const;
  // Prints what Emit gave; the file too, unless --out took it.
  void PrintEmitted(const Emitted& emitted, bool is_in_file) const;
  // "emitted": the trainer, the file's text and what it does not say.
  void WriteEmitted(JsonWriter& json, const Emitted& emitted) const;

 private:
  // Whether --for asks for the software of another trainer than the file's.
  bool AsksForOther() const { return for_ != kAnyTrainer && for_ != framework_; }
  Result<std::optional<Preset>> SoftwareOfTrainer() const;

  std::string from_, emit_, for_ = kAnyTrainer;
  bool strict_ = false;
  std::vector<Dialect> dialects_;
  std::vector<LaunchPart> parts_;
  std::optional<Launch> launch_;
  std::vector<const PlanField*> given_;
  std::string preset_, framework_;
};

}  // namespace foretrain
