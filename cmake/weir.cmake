# How every part of weir is built: flags, and one static library per folder with private include paths.

add_compile_options(-Wall -Wextra -Wpedantic -Werror -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wshadow
  -ffp-contract=off -fno-math-errno -fno-trapping-math -g)
add_compile_definitions(_GNU_SOURCE)
set(CMAKE_C_FLAGS_RELEASE "-O2") # assertions stay on: they guard the protocol
if(WEIR_SANITIZE)
  add_compile_options(-fsanitize=${WEIR_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${WEIR_SANITIZE})
endif()

# weir_library(NAME [DEPENDS lib...]): all *.c of the current folder as the static library weir_NAME.
# Its headers are included as "NAME/header.h", and only by those that depend on it: the include path is a folder
# of the build tree that holds one link, to this folder. So the layer rule of docs/architecture.md is kept by the
# compiler.
function(weir_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.c)
  set(include ${PROJECT_BINARY_DIR}/include/${name})
  file(MAKE_DIRECTORY ${include})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR} ${include}/${name} SYMBOLIC)
  if(sources)
    add_library(weir_${name} STATIC ${sources})
    target_include_directories(weir_${name} PUBLIC ${include})
    target_link_libraries(weir_${name} PUBLIC ${ARG_DEPENDS})
  else()
    add_library(weir_${name} INTERFACE)
    target_include_directories(weir_${name} INTERFACE ${include})
    target_link_libraries(weir_${name} INTERFACE ${ARG_DEPENDS})
  endif()
endfunction()
