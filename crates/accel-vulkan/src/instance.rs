//! The Vulkan instance, with the validation layer where it is asked for.

use std::ffi::{CStr, c_void};
use std::sync::Mutex;

use ash::{ext, vk};

use crate::Error;

const VALIDATION_LAYER: &CStr = c"VK_LAYER_KHRONOS_validation";
/// Validation messages kept for [`crate::Engine::validation_errors`]; later ones are only logged.
const KEPT_MESSAGES: usize = 64;

/// Errors that are the layer's and not ours: layers older than an extension do not know its structures.
/// (1.3.239 of Debian 12 knows neither VK_KHR_shader_bfloat16 nor VK_KHR_cooperative_matrix.)
const FALSE_ERRORS: [&str; 2] = [
    "chain includes a structure with unknown VkStructureType (1000141000)",
    "chain includes a structure with unknown VkStructureType (1000506000)",
];

/// Error messages of the validation layer.
#[derive(Default)]
struct ValidationLog(Mutex<Vec<String>>);

struct Messenger {
    functions: ext::debug_utils::Instance,
    handle: vk::DebugUtilsMessengerEXT,
    // Boxed: the layer holds its address.
    log: Box<ValidationLog>,
}

/// A loaded loader and an instance of it.
pub(crate) struct Instance {
    pub(crate) raw: ash::Instance,
    pub(crate) entry: ash::Entry,
    messenger: Option<Messenger>,
}

impl Instance {
    /// Makes an instance; `validation` turns the Khronos layer on, if it is installed.
    pub(crate) fn new(validation: bool) -> Result<Self, Error> {
        // SAFETY: the loader is the system's; running its initialisers is what loading it means.
        let entry = unsafe { ash::Entry::load() }.map_err(Error::Loader)?;
        let validation = validation && has_validation_layer(&entry)?;
        let application = vk::ApplicationInfo::default()
            .application_name(c"vhost-device-accel")
            .api_version(vk::API_VERSION_1_3);
        let layers = [VALIDATION_LAYER.as_ptr()];
        let extensions = [ext::debug_utils::NAME.as_ptr()];
        let mut info = vk::InstanceCreateInfo::default().application_info(&application);
        if validation {
            info = info.enabled_layer_names(&layers).enabled_extension_names(&extensions);
        }
        // SAFETY: well-formed; layer and extension were enumerated.
        let raw = unsafe { entry.create_instance(&info, None) }.map_err(|result| match result {
            // What the loader answers when no driver is installed.
            vk::Result::ERROR_INCOMPATIBLE_DRIVER => Error::NoDriver,
            result => Error::of("vkCreateInstance")(result),
        })?;
        let mut instance = Self { raw, entry, messenger: None };
        if validation {
            instance.messenger = Some(Messenger::new(&instance.entry, &instance.raw)?);
        }
        Ok(instance)
    }

    /// Error messages of the validation layer so far; `None` when it is off.
    pub(crate) fn validation_errors(&self) -> Option<Vec<String>> {
        self.messenger.as_ref().map(|m| lock(&m.log.0).clone())
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(messenger) = &self.messenger {
            // SAFETY: alive, and no other thread uses the instance any more.
            unsafe { messenger.functions.destroy_debug_utils_messenger(messenger.handle, None) };
        }
        // SAFETY: devices hold the instance through an `Arc`, so all of them are destroyed.
        unsafe { self.raw.destroy_instance(None) };
    }
}

impl Messenger {
    fn new(entry: &ash::Entry, instance: &ash::Instance) -> Result<Self, Error> {
        let functions = ext::debug_utils::Instance::new(entry, instance);
        let log = Box::<ValidationLog>::default();
        let info = vk::DebugUtilsMessengerCreateInfoEXT::default()
            .message_severity(
                vk::DebugUtilsMessageSeverityFlagsEXT::ERROR | vk::DebugUtilsMessageSeverityFlagsEXT::WARNING,
            )
            .message_type(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION)
            .pfn_user_callback(Some(on_message))
            .user_data((&raw const *log).cast_mut().cast());
        // SAFETY: well-formed; the log is boxed and outlives the messenger.
        let handle = unsafe { functions.create_debug_utils_messenger(&info, None) }
            .map_err(Error::of("vkCreateDebugUtilsMessengerEXT"))?;
        Ok(Self { functions, handle, log })
    }
}

fn has_validation_layer(entry: &ash::Entry) -> Result<bool, Error> {
    // SAFETY: the loader is alive.
    let layers = unsafe { entry.enumerate_instance_layer_properties() }
        .map_err(Error::of("vkEnumerateInstanceLayerProperties"))?;
    let found = layers.iter().any(|l| l.layer_name_as_c_str().is_ok_and(|name| name == VALIDATION_LAYER));
    if !found {
        log::warn!("the Khronos validation layer is not installed: running without it");
    }
    Ok(found)
}

/// The layer's callback: logs, and keeps errors.
unsafe extern "system" fn on_message(
    severity: vk::DebugUtilsMessageSeverityFlagsEXT,
    _kind: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    user: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: the layer passes valid data and a terminated string, and the user pointer that we gave it:
    // a `ValidationLog` that outlives the messenger.
    let (text, log) = unsafe {
        let message = (*data).p_message;
        if message.is_null() {
            return vk::FALSE;
        }
        (CStr::from_ptr(message).to_string_lossy(), &*user.cast_const().cast::<ValidationLog>())
    };
    let is_false = FALSE_ERRORS.iter().any(|part| text.contains(part));
    if severity.contains(vk::DebugUtilsMessageSeverityFlagsEXT::ERROR) && !is_false {
        log::error!("Vulkan validation: {text}");
        let mut kept = lock(&log.0);
        if kept.len() < KEPT_MESSAGES {
            kept.push(text.into_owned());
        }
    } else {
        log::warn!("Vulkan validation: {text}");
    }
    vk::FALSE
}

/// Locks a mutex whose data stays valid even if a holder panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
