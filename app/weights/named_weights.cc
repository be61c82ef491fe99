#include "app/weights/named_weights.h"

#include <fmt/format.h>

#include <utility>

#include "app/cli/flags/plan_flags.h"
#include "base/text.h"
#include "runtime/checkpoint/checkpoint_weights.h"
#include "runtime/parameters/peft.h"
#include "sim/config/catalogue/catalogue.h"

namespace foretrain {
namespace {

Result<Weights> OpenAverages(FileSystem& files, const std::string& from) {
  FT_ASSIGN(const std::optional<Checkpoint> checkpoint, FindCheckpoint(files, from));
  if (!checkpoint) {
    return Fail(ErrorCode::kInvalidArgument,
                "--ema: " + Printable(from, 512) + " is no checkpoint; only these have averages");
  }
  Weights weights;
  FT_ASSIGN(weights.source, AveragesOf(files, *checkpoint));
  return weights;
}

}  // namespace

Result<ModelOfWeights> FindModelOfWeights(FileSystem& files, const std::string& from,
                                          const std::string& model) {
  ModelOfWeights found;
  ModelFlags flags;
  flags.model = model;
  if (model.empty()) {
    FT_ASSIGN(found.checkpoint, FindCheckpoint(files, from));
    if (found.checkpoint) {
      found.model = found.checkpoint->manifest().model;
      return found;
    }
    const std::string config = from + "/config.json";
    FT_ASSIGN(const FileInfo folder, files.Stat(from));
    const auto described = folder.kind == FileKind::kDirectory
                               ? files.Stat(config)
                               : Result<FileInfo>(FileInfo{FileKind::kMissing, 0});
    if (!described || described->kind == FileKind::kMissing) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("--model: {} is no folder with a config.json; name the model of "
                              "the weights",
                              Printable(from, 512)));
    }
    flags.option = "FROM";
    found.config = flags.model = config;
  }
  FT_ASSIGN(const Catalogue catalogue, BuiltInCatalogue());
  FT_ASSIGN(found.model, flags.Resolve(catalogue));
  return found;
}

Result<Weights> OpenMergedWeights(FileSystem& files, const MergedWeightsRequest& request,
                                  const ModelSpec& model) {
  if (request.averages) return OpenAverages(files, request.from);
  FT_ASSIGN(Weights weights, OpenWeights(files, request.from, model));
  if (request.adapters.empty()) return weights;
  if (!weights.names) {
    return Fail(ErrorCode::kInvalidArgument, request.adapters_option + ": " + request.from +
                                                 " has no names of the Hugging Face library");
  }
  FT_ASSIGN(const AdapterOf adapters, OpenAdapters(files, request.adapters, model, *weights.names));
  weights.source = MergedWeights(weights.source, adapters);
  return weights;
}

}  // namespace foretrain
