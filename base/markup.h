// Texts of HTML, SVG and other XML.
#pragma once

#include <string>
#include <string_view>

namespace foretrain {

// `text` as the content of an element or of an attribute in quotes. Control bytes and broken UTF-8
// become \xNN, so that any text gives a valid document.
std::string EscapedMarkup(std::string_view text);

}  // namespace foretrain
