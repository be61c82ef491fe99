#include "runtime/parameters/weight_writer.h"

#include <fmt/format.h>

#include <span>
#include <utility>
#include <vector>

#include "base/io/new_folder.h"
#include "base/json/json.h"
#include "runtime/parameters/file_tensors.h"
#include "runtime/parameters/model_tensors.h"
#include "runtime/parameters/weight_files.h"
#include "sim/config/model/import/hugging_face.h"
#include "sim/config/model/import/write_config.h"

namespace foretrain {
namespace {

// A given config.json is kept, as it may say more than the model does.
Result<HuggingFaceConfig> ConfigFor(const ModelSpec& model, const WeightWriterOptions& options,
                                    const std::string& dtype) {
  if (options.config.empty()) return ConfigOf(model, options.model_type, dtype);
  FT_ASSIGN(const JsonValue value, ParseJson(options.config, "config.json"));
  JsonFields fields(value, "config.json");
  HuggingFaceConfig config;
  config.model_type = fields.String("model_type");
  FT_TRY(fields.Finish(/*ignore_unknown=*/true));
  FT_ASSIGN(config.text, WithDtype(options.config, dtype));
  return config;
}

// Consecutive tensors of each file: as many as fit, at least one.
std::vector<std::span<const GatheredTensor>> Files(std::span<const GatheredTensor> tensors,
                                                   std::int64_t max_bytes) {
  std::vector<std::span<const GatheredTensor>> files;
  for (std::size_t begin = 0; begin < tensors.size();) {
    std::size_t end = begin;
    std::int64_t bytes = 0;
    do {
      bytes += tensors[end++].tensor.bytes();
    } while (end < tensors.size() && bytes + tensors[end].tensor.bytes() <= max_bytes);
    files.push_back(tensors.subspan(begin, end - begin));
    begin = end;
  }
  return files;
}

std::string IndexOf(std::span<const std::pair<std::string, std::string>> files_of_tensors,
                    std::int64_t bytes) {
  JsonWriter json(2);
  json.BeginObject().Name("metadata").BeginObject().Field("total_size", bytes).EndObject();
  json.Name("weight_map").BeginObject();
  for (const auto& [tensor, file] : files_of_tensors) {
    json.Field(tensor, std::string_view(file));
  }
  return json.EndObject().EndObject().Take() + "\n";
}

}  // namespace

Result<WrittenWeights> WriteWeights(FileSystem& files, const std::string& folder,
                                    const ModelSpec& model, const TensorSource& source,
                                    const WeightWriterOptions& options) {
  FT_ASSIGN(const DtypeNames dtype, DtypeNamesOf(options.format));
  FT_ASSIGN(const HuggingFaceConfig config, ConfigFor(model, options, dtype.config));
  FT_ASSIGN(const TensorNames names, TensorNames::OfType(config.model_type, model));
  std::vector<GatheredTensor::Part> all;
  for (const ParameterPlace& place : TensorsOf(model)) all.push_back({place, names.For(place)});
  FT_ASSIGN(const auto tensors,
            GatherFileTensors(std::move(all), model.experts, dtype.safetensors));
  const auto parts = Files(tensors, options.max_file_bytes);
  WrittenWeights written{config.model_type, std::ssize(tensors), 0, static_cast<int>(parts.size())};
  FT_TRY(CreateFolder(files, folder, [&](const std::string& to) -> Result<void> {
    std::vector<std::pair<std::string, std::string>> files_of_tensors;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::string name =
          parts.size() == 1 ? std::string(kWeightsName)
                            : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, parts.size());
      FT_TRY(WriteTensorFile(files, to + "/" + name, parts[i], source));
      for (const GatheredTensor& one : parts[i]) {
        written.bytes += one.tensor.bytes();
        files_of_tensors.emplace_back(one.tensor.name, name);
      }
    }
    if (parts.size() > 1) {
      FT_TRY(WriteNewFile(files, to + "/" + std::string(kIndexName),
                          IndexOf(files_of_tensors, written.bytes)));
    }
    for (const auto& [name, text] : options.more) {
      FT_TRY(WriteNewFile(files, to + "/" + name, text));
    }
    return WriteNewFile(files, to + "/config.json", config.text);
  }));
  return written;
}

}  // namespace foretrain
