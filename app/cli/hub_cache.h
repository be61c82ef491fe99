// Finds the config.json of a model that a Hugging Face tool has downloaded before, by its name on
// the hub. Leaves out downloading: nothing here touches a network.
#pragma once

#include <string>
#include <string_view>

#include "base/io/file_system.h"
#include "base/result.h"

namespace foretrain {

// The cache folder of the Hugging Face tools: the first that is set of $HF_HUB_CACHE, $HF_HOME/hub,
// $XDG_CACHE_HOME/huggingface/hub and ~/.cache/huggingface/hub. Empty if none is set.
std::string HubCacheFolder();

// Whether `text` may be "organisation/name".
bool LooksLikeHubName(std::string_view text);

// The path of config.json in the snapshot that refs/main of models--organisation--name names, or in
// the only snapshot there is.
//
//   folder  as HubCacheFolder gives it
//
// Errors: kInvalidArgument, naming the folder: no such model, no snapshot with a config.json, or
// several and none is main. O(snapshots).
Result<std::string> FindInHubCache(FileSystem& files, const std::string& folder,
                                   std::string_view name);

}  // namespace foretrain
