#include "sim/cost/profile/architecture.h"

#include <algorithm>
#include <array>

#include "base/checked.h"
#include "base/embedded.h"
#include "base/json/json.h"
#include "sim/embedded_data.h"

namespace foretrain {
namespace {

constexpr std::string_view kFile = "sim/cost/profile/architectures.json";

constexpr std::array<std::string_view, kProvenanceCount> kProvenanceNames = {
    "measured", "interpolated", "extrapolated", "default"};

constexpr std::array<ArchitectureField, 11> kFields = {{
    {"sustained_share", &Architecture::sustained_share, 0.01, 1.0},
    {"sustained_short_share", &Architecture::sustained_short_share, 0.01, 1.0},
    {"memory_efficiency", &Architecture::memory_efficiency, 0.01, 1.0},
    {"kernel_s", &Architecture::kernel_s, 0.0, 1e-3},
    {"flash_forward", &Architecture::flash_forward, 0.01, 1.0},
    {"flash_backward", &Architecture::flash_backward, 0.01, 1.0},
    {"cudnn_forward", &Architecture::cudnn_forward, 0.01, 1.0},
    {"cudnn_backward", &Architecture::cudnn_backward, 0.01, 1.0},
    {"unaligned_share", &Architecture::unaligned_share, 0.01, 1.0},
    {"score_efficiency", &Architecture::score_efficiency, 0.01, 1.0},
    {"flash1_share", &Architecture::flash1_share, 0.01, 1.0},
}};

// Each constant needs a source in the file, which is for people and not stored.
Result<Figure> ReadFigure(JsonFields& fields, const ArchitectureField& field) {
  JsonFields figure = fields.Object(field.name);
  Figure out;
  out.value = figure.Number("value", field.low, field.high);
  out.provenance = static_cast<Provenance>(figure.Choice("provenance", kProvenanceNames));
  (void)figure.String("source");
  FT_TRY(figure.Finish());
  return out;
}

}  // namespace

std::span<const ArchitectureField> ArchitectureFields() { return kFields; }

// Every architecture must give every constant, so that kernel models never mix defaults with fits.
Result<std::vector<Architecture>> ArchitecturesFromJson(std::string_view text,
                                                        std::string_view file) {
  FT_ASSIGN(const JsonValue value, ParseJson(text, file));
  JsonFields fields(value, file);
  std::vector<Architecture> out;
  for (JsonFields& entry : fields.Objects("architectures")) {
    Architecture architecture;
    architecture.name = entry.String("name", 64);
    architecture.devices = entry.Strings("devices", 64);
    for (const ArchitectureField& field : kFields) {
      FT_ASSIGN(architecture.*field.figure, ReadFigure(entry, field));
    }
    FT_TRY(entry.Finish());
    out.push_back(std::move(architecture));
  }
  FT_TRY(fields.Finish());
  return out;
}

// Part of the program, so a missing file is a bug.
Result<std::vector<Architecture>> BuiltInArchitectures() {
  const EmbeddedFile* file = FindEmbedded(sim_data::Files(), kFile);
  FT_CHECK(file != nullptr);
  return ArchitecturesFromJson(file->text, kFile);
}

// Device names are matched by their start: "A100" covers every A100 variant.
const Architecture* FindArchitecture(const std::vector<Architecture>& architectures,
                                     std::string_view device) {
  for (const Architecture& architecture : architectures) {
    for (const std::string& start : architecture.devices) {
      if (device.starts_with(start)) return &architecture;
    }
  }
  return nullptr;
}

}  // namespace foretrain
