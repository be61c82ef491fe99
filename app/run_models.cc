#include "app/run_models.h"

#include "sim/spec/model_json.h"

namespace foretrain {

Result<void> AddModelNames(const StoreReader& reader, const std::vector<RunInfo>& runs,
                           std::map<RunId, std::string>& names) {
  for (const RunInfo& run : runs) {
    if (run.kind != RunKind::kMeasured || names.contains(run.id)) continue;
    LoadOptions options;
    options.timeline = false;
    FT_ASSIGN(const StoredRun stored, reader.LoadRun(run.id, options));
    const auto model = ModelFromJson(stored.specs.model_json, "run " + std::to_string(run.id));
    if (model.has_value()) names.emplace(run.id, model->name);
  }
  return {};
}

}  // namespace foretrain
