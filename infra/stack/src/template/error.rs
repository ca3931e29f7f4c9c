use crate::yaml::YamlError;

#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    #[error("the template cannot be read: {0}")]
    Yaml(#[from] YamlError),
    #[error("the template contains {0}, which is not supported")]
    Unsupported(String),
    #[error("the template does not define {0}")]
    Missing(String),
}
