#include "app/weights/named_weights.h"

#include <fmt/format.h>

#include <utility>

#include "app/cli/plan_flags.h"
#include "base/text.h"
#include "runtime/checkpoint/checkpoint_weights.h"
#include "runtime/parameters/peft.h"
#include "sim/config/catalogue/catalogue.h"

namespace foretrain {

Result<ModelOfWeights> FindModelOfWeights(FileSystem& files, const std::string& from,
                                          const std::string& model) {
  FT_ASSIGN(const FileInfo info, files.Stat(from));
  ModelOfWeights found;
  ModelFlags flags;
  flags.model = model;
  if (model.empty()) {
    FT_ASSIGN(found.checkpoint, FindCheckpoint(files, from));
    if (found.checkpoint) {
      found.model = found.checkpoint->manifest().model;
      return found;
    }
    if (info.kind != FileKind::kDirectory) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("--model: {} is no folder with a config.json; name the model of "
                              "the weights",
                              Printable(from, 512)));
    }
    flags.option = "FROM";
    found.config = flags.model = from + "/config.json";
  }
  FT_ASSIGN(const Catalogue catalogue, BuiltInCatalogue());
  FT_ASSIGN(found.model, flags.Resolve(catalogue));
  return found;
}

Result<Weights> OpenMergedWeights(FileSystem& files, const std::string& from,
                                  const ModelSpec& model, const std::string& adapters,
                                  const std::string& option) {
  FT_ASSIGN(Weights weights, OpenWeights(files, from, model));
  if (adapters.empty()) return weights;
  if (!weights.names) {
    return Fail(ErrorCode::kInvalidArgument,
                option + ": " + from + " has no names of the Hugging Face library");
  }
  FT_ASSIGN(const AdapterOf merged, OpenAdapters(files, adapters, model, *weights.names));
  weights.source = MergedWeights(weights.source, merged);
  return weights;
}

}  // namespace foretrain
